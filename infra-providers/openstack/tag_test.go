// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// TestTagChangesAllAttachments tags a machine with every kind of attachment for another UID of its Cluster.
func TestTagChangesAllAttachments(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := fullSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	d := r.connect(t)
	moved := worker
	moved.ProviderID = mustCreate(t, d, newRequest(t, spec)).ProviderID
	r.awaitStates(t)
	moved.Owner.UID = "dddddddd-0000-4000-8000-000000000001"
	if err := d.(driver.Tagger).Tag(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	want := map[types.UID]map[string]int{worker.Owner.UID: {}, moved.Owner.UID: {"port": 2, "floating IP": 1, "volume": 1}}
	got := map[types.UID]map[string]int{}
	for uid := range want {
		got[uid] = map[string]int{}
		for left, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{UID: uid}) {
			if err != nil {
				t.Fatal(err)
			}
			got[uid][left.Kind]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantLeftovers(t, r, moved) // also the server group with the earlier UID
}
