// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// An operator has restored a backup of the machine's root volume into a new volume to rescue data: Cinder restores name
// and metadata too. Then the machine is deleted.
func TestRestoredBackupIsNotDeleted(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	d := r.connect(t)
	mustCreate(t, d, newRequest(t, spec))
	session, err := access.Open(driver.Account{SecretName: "cloud"}, r.secret, r.faults, nil)
	if err != nil {
		t.Fatal(err)
	}
	services, err := session.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := volumes.List(services.Volume, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := volumes.ExtractVolumes(page)
	if err != nil || len(all) != 1 {
		t.Fatalf("got the volumes %v and %v", all, err)
	}
	restored, err := volumes.Create(t.Context(), services.Volume, volumes.CreateOpts{
		Name: all[0].Name, Size: 20, Metadata: all[0].Metadata, Description: "restored from a backup by an operator",
	}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = d.Delete(t.Context(), worker)
		r.awaitStates(t)
	}
	if left := r.Leftovers(); len(left) != 1 || !strings.Contains(left[0], restored.ID) {
		t.Errorf("left: %q, want only the restored volume %s", left, restored.ID)
	}
	var remains []driver.AttachedObject
	for remain, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		remains = append(remains, remain)
	}
	if len(remains) != 1 || !remains[0].Copy {
		t.Errorf("remains: %+v", remains)
	}
}
