// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Found is something in the cloud that carries our tags: an instance, or what was made beside one.
type Found struct {
	// Kind is instance, or the cloud's word for another thing.
	Kind     string
	ID       string
	Identity driver.Identity
	Created  time.Time
}

func (f Found) key() string { return f.Kind + "/" + f.ID }

// Verdict is what is to be done about something found.
type Verdict string

// The verdicts, from harmless to final.
const (
	// Wanted: a machine owns it.
	Wanted Verdict = "wanted"
	// Foreign: its Cluster is not one that we know by UID, so it is somebody else's to judge.
	Foreign Verdict = "foreign"
	// Young: it may belong to a machine whose news did not reach us yet.
	Young Verdict = "young"
	// Frozen: nothing is collected in its Cluster now.
	Frozen Verdict = "frozen"
	// Suspected: nobody owns it, and it was not seen like this before.
	Suspected Verdict = "suspected"
	// Spared: it is an orphan, and enough was collected in this sweep.
	Spared Verdict = "spared"
	// Orphaned: it may be deleted once a live read agrees.
	Orphaned Verdict = "orphaned"
)

// Input is all that a plan depends on.
type Input struct {
	Now   time.Time
	Found []Found
	// Wanted are the UIDs and provider IDs that machines own.
	Wanted map[string]bool
	// Clusters are the Clusters known, and whether each is frozen.
	Clusters map[types.UID]bool
	// Suspects are the things that were suspected before, and since when.
	Suspects map[string]time.Time
	// Grace is how old a thing must be, and how long it must have been suspected.
	Grace time.Duration
	// Cap is how many may be collected in one sweep.
	Cap int
}

// Judged is one thing with its verdict.
type Judged struct {
	Found
	Verdict Verdict
}

// Plan judges everything found, the oldest first. Each guard is one line; the order is the specification.
func Plan(in Input) []Judged {
	found := slices.Clone(in.Found)
	slices.SortFunc(found, func(a, b Found) int {
		if order := a.Created.Compare(b.Created); order != 0 {
			return order
		}
		return strings.Compare(a.key(), b.key())
	})
	left := in.Cap
	judged := make([]Judged, len(found))
	for i, thing := range found {
		frozen, known := in.Clusters[thing.Identity.Owner.UID]
		since, suspected := in.Suspects[thing.key()]
		verdict := Orphaned
		switch {
		case in.wants(thing):
			verdict = Wanted
		case !known:
			verdict = Foreign
		case thing.Created.IsZero() || in.Now.Sub(thing.Created) < in.Grace:
			verdict = Young
		case frozen:
			verdict = Frozen
		case !suspected || in.Now.Sub(since) < in.Grace:
			verdict = Suspected
		case left <= 0:
			verdict = Spared
		default:
			left--
		}
		judged[i] = Judged{Found: thing, Verdict: verdict}
	}
	return judged
}

// wants reports whether a machine owns a thing.
func (in Input) wants(thing Found) bool {
	return in.Wanted[string(thing.Identity.UID)] || in.Wanted[thing.Identity.ProviderID]
}
