// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/hetznerfake"
)

// TestSameUIDOfAnotherMachine: the author of a machine chooses the annotation with the UID, so it may be that of a machine in
// another namespace.
func TestSameUIDOfAnotherMachine(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	forged := newRequest(t, "forged", newSpec())
	forged.Identity.UID = identity("m").UID
	forged.Identity.Owner = driver.Owner{UID: "e", Namespace: "other", Name: "other"}
	forged.Config.Volumes = []infrav1.HetznerVolume{{Name: "forged", SizeGB: 10}}
	mustCreate(t, cloud, forged)
	before := cloud.Leftovers()

	cloud.RefuseServer(http.StatusConflict, "conflict", "")
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec())); err == nil {
		t.Fatal("the creation succeeded")
	}
	if err := connect(cloud).Delete(t.Context(), identity("m")); !driver.IsNotOwned(err) {
		t.Errorf("got %v, want a NotOwnedError", err)
	}
	if diff := cmp.Diff(before, cloud.Leftovers()); diff != "" {
		t.Errorf("what is left of a failed creation (-want +got):\n%s", diff)
	}

	id := mustCreate(t, cloud, newRequest(t, "m", newSpec())).Identity
	id.ProviderID = "" // as after a lost answer
	if found, err := connect(cloud).Get(t.Context(), id); err != nil || found.Identity.Name != "m" {
		t.Errorf("got %+v and %v", found.Identity, err)
	}
	moved := id
	moved.Owner.UID = "moved"
	if err := connect(cloud).Tag(t.Context(), moved); err != nil {
		t.Error(err)
	}
	for range attempts {
		if err := connect(cloud).Delete(t.Context(), moved); err != nil && !driver.IsNotOwned(err) {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, cloud.Leftovers()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestCreateDoesNotReplaceAnUntaggedServer: a server with the UID and without the other labels may be the machine's own.
func TestCreateDoesNotReplaceAnUntaggedServer(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	spec := newSpec()
	spec.Volumes = nil
	req := newRequest(t, "m", spec)
	mustCreate(t, cloud, req)
	before := countCalls(cloud, "POST /servers")
	cloud.Untag(cloud.CreatedServers()[0].Server.ID, driver.TagMachine)
	if _, err := connect(cloud).Create(t.Context(), req); !driver.IsUntagged(err) {
		t.Errorf("got %v, want a NotOwnedError of an untagged server", err)
	}
	if after := countCalls(cloud, "POST /servers"); after != before {
		t.Errorf("%d further creations were requested", after-before)
	}
}
