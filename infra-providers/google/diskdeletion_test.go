// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/google/googlefake"
)

// TestDiskOfOthersWithTheMachinesLabelsIsKept: a tool may copy the labels of an instance to the disks that a CSI driver attached, or
// restore them with a backup.
func TestDiskOfOthersWithTheMachinesLabelsIsKept(t *testing.T) {
	t.Parallel()
	const key = googlefake.ZoneA + "/worker-1"
	for name, add := range map[string]func(*googlefake.Cloud){
		"detached": func(c *googlefake.Cloud) { c.CopyLabels(key) },
		"attached, and detached with the instance":         func(c *googlefake.Cloud) { c.AttachCopy(key, false) },
		"attached, and would be deleted with the instance": func(c *googlefake.Cloud) { c.AttachCopy(key, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{})
			d := gce.connect(t)
			if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, withDisk))); err != nil {
				t.Fatal(err)
			}
			add(gce.cloud)
			for range 5 {
				if err := d.Delete(t.Context(), identity); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"disk " + googlefake.ZoneA + "/pvc-worker-1"}, gce.cloud.Leftovers()); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			for found, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), identity.Owner) {
				if err != nil || !found.Copy {
					t.Errorf("got %+v and %v, want a copy", found, err)
				}
			}
		})
	}
}
