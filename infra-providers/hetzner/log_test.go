// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/hetznerfake"
)

// TestChangesAreLoggedOnce compares the log of a machine's creation and deletion, with as many calls as both take.
func TestChangesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{ActionDelay: 2})
	var got []string
	ctx := logr.NewContext(context.Background(), funcr.NewJSON(func(line string) {
		var entry struct{ Msg, Volume, Network, PlacementGroup string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Error(err)
		}
		got = append(got, entry.Msg+" "+entry.Volume+entry.Network+entry.PlacementGroup)
	}, funcr.Options{}))
	spec := newSpec()
	spec.Backups = ptr.To(true)
	spec.Networks = []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24"}}
	req := newRequest(t, "m", spec)
	for range 2 {
		if _, err := connect(cloud).AccountID(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for range attempts {
		if _, err = connect(cloud).Create(ctx, req); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for range attempts {
		if err := connect(cloud).Delete(ctx, req.Identity); err != nil {
			continue
		}
		if _, err = connect(cloud).Get(ctx, req.Identity); driver.IsNotFound(err) {
			break
		}
	}
	if !driver.IsNotFound(err) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
	uid := string(req.Identity.UID)
	want := []string{
		"created placement group drover-project-do-not-delete",
		"created volume " + uid + "-data", "created volume " + uid + "-logs",
		"attached network private", "enabled backups ", "powered on instance ",
		"detached volume " + uid + "-data", "detached volume " + uid + "-logs",
		"deleted volume " + uid + "-data", "deleted volume " + uid + "-logs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
