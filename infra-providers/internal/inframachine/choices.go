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

// choiceInput is all that the choice among a machine's configurations depends on.
type choiceInput struct {
	// stored is the choice on the object: the only one whose creation may have been requested.
	stored int
	// outcomeKnown is true when no creation has an unknown outcome, so that another choice may be made.
	outcomeKnown bool
	// offerings have the availability of each configuration's offering, in order.
	offerings []throttle.UnavailableOffering
}

// next returns which configuration is next and how long to wait before: the first whose offering is available, or the
// first that will be tried again. While the outcome of a creation is unknown it is always the stored one, at once, because
// only the cloud can answer that it made no instance.
func (c choiceInput) next() (choice int, wait time.Duration) {
	if !c.outcomeKnown {
		return c.stored, 0
	}
	choice = c.stored
	if c.offerings[choice].Left > 0 {
		choice = 0
	}
	for i, offering := range c.offerings {
		if offering.Left < c.offerings[choice].Left {
			choice = i
		}
	}
	return choice, c.offerings[choice].Left
}

// storedChoice returns the choice on the object. One that is out of range, because another release wrote it, counts as
// the first.
func storedChoice[M driver.Machine](machine M, choices int) int {
	n, err := strconv.Atoi(machine.GetAnnotations()[infrav1.ChoiceAnnotation])
	if err != nil || n < 0 || n >= choices {
		return 0
	}
	return n
}

// setChoice writes a choice into the annotations; the first needs none.
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
