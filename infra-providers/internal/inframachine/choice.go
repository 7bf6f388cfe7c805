// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"maps"
	"strconv"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/throttle"
)

// outlook is all that the choice among a machine's configurations depends on.
type outlook struct {
	// stored is the choice on the object: the only one that may have been asked for.
	stored int
	// quiet is true when nothing that was asked is unanswered, so another choice may be made.
	quiet bool
	// shortages are those of each configuration's place, in order.
	shortages []throttle.Shortage
}

// choose returns which configuration is next and how long to wait before: the first whose place is not
// put aside, or the first to come back. While an answer is missing it is always the stored one, at once,
// for only the cloud itself can say that nothing came of it.
func (o outlook) choose() (choice int, rest time.Duration) {
	if !o.quiet {
		return o.stored, 0
	}
	choice = o.stored
	if o.shortages[choice].Left > 0 {
		choice = 0
	}
	for i, place := range o.shortages {
		if place.Left < o.shortages[choice].Left {
			choice = i
		}
	}
	return choice, o.shortages[choice].Left
}

// stored returns the choice on the object. What is no choice any more, because the spec was not written by
// this release, counts as the first.
func stored[M driver.Machine](machine M, choices int) int {
	n, err := strconv.Atoi(machine.GetAnnotations()[infrav1.ChoiceAnnotation])
	if err != nil || n < 0 || n >= choices {
		return 0
	}
	return n
}

// setChoice notes a choice; the first needs no note.
func setChoice[M driver.Machine](machine M, choice int) {
	annotations := maps.Clone(machine.GetAnnotations())
	delete(annotations, infrav1.ChoiceAnnotation)
	if choice > 0 {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[infrav1.ChoiceAnnotation] = strconv.Itoa(choice)
	}
	machine.SetAnnotations(annotations)
}
