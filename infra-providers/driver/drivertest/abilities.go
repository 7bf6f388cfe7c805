// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"

	"drover.io/infra-providers/driver"
)

// retag follows a Cluster that moved and has another UID, as the collection of orphans must.
func retag[C any](t *testing.T, world World[C]) {
	tagger, ok := world.Driver.(driver.Tagger)
	if !ok {
		t.Skip("this cloud does not change tags")
	}
	id := identity(1)
	moved := id
	moved.Owner.UID = uid(2, 7)
	if err := tagger.Tag(t.Context(), moved); !driver.IsNotFound(err) {
		t.Errorf("tagging what does not exist: got %v, want a NotFoundError", err)
	}
	moved.ProviderID = create(t, world, id).ProviderID
	for range 2 {
		if err := tagger.Tag(t.Context(), moved); err != nil {
			t.Fatalf("tagging: %v", err)
		}
	}
	wantOne(t, world, moved)
	if found, err := all(t.Context(), world.Driver, id.Owner); err != nil || len(found) > 0 {
		t.Errorf("the owner before still has %d instances and %v", len(found), err)
	}
	if remainder, ok := world.Driver.(driver.Remainder); ok {
		for left, err := range remainder.Remains(t.Context(), id.Owner) {
			t.Errorf("the owner before still has %s %q and %v", left.Kind, left.ID, err)
		}
	}
	otherName, otherCluster := moved, moved
	otherName.Name, otherCluster.Owner.Name = "somebody-else", "away"
	for who, ask := range map[string]driver.Identity{"another name": otherName, "another cluster": otherCluster} {
		if err := tagger.Tag(t.Context(), ask); !driver.IsNotOwned(err) {
			t.Errorf("tagging under %s: got %v, want a NotOwnedError", who, err)
		}
	}
	wantOne(t, world, moved)
}
