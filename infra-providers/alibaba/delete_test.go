// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/driver"
)

func created(t *testing.T, d driver.Driver[alibaba.InstanceConfig], config alibaba.InstanceConfig) driver.Identity {
	t.Helper()
	instance, err := d.Create(t.Context(), newRequest(identity, config))
	if err != nil {
		t.Fatal(err)
	}
	id := identity
	id.ProviderID = instance.ProviderID
	return id
}

func instanceID(id driver.Identity) string {
	return id.ProviderID[strings.LastIndex(id.ProviderID, ".")+1:]
}

func wantNothingLeft(t *testing.T, w env) {
	t.Helper()
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestOwnDiskWhoseTagsAreLateIsReleased, and not kept as the disk of somebody else, which nobody would delete.
func TestOwnDiskWhoseTagsAreLateIsReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{TagDelay: 4})
	d := w.connect(t)
	id := created(t, d, newConfig(t, withDisk))
	if err := d.Delete(t.Context(), id); !driver.IsUnfinished(err) {
		t.Errorf("while no tags are shown: got %v, want an UnfinishedError", err)
	}
	for range 4 {
		_, _ = d.Get(t.Context(), id) // the reads without tags
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestOwnDiskOfALostAnswerIsReleased: ECS lists the instance by its tags before it shows those of its disks.
func TestOwnDiskOfALostAnswerIsReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{DiskTagDelay: 1})
	d := w.connect(t)
	w.cloud.FailNext(alibabafake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, withDisk))); err == nil {
		t.Fatal("the answer was not lost")
	}
	if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Errorf("while no tags are shown: got %v, want an UnfinishedError", err)
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestLocalDiskIsReleased, for which ECS refuses what would keep it.
func TestLocalDiskIsReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	id := created(t, d, newConfig(t, unchanged))
	w.cloud.AttachLocal(instanceID(id))
	w.clock.Advance(3 * time.Minute)
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestImageWithDataDisksIsRefused, also with as many data disks in the spec: ECS would create those of the image without the names by
// which a deletion knows them. An instance that exists does not depend on its image.
func TestImageWithDataDisksIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	full := newConfig(t, func(s *infrav1.AlibabaMachineSpec) {
		s.Image = infrav1.AlibabaImage{ID: alibabafake.FullImage}
		for _, name := range []string{"a", "b"} {
			s.DataDisks = append(s.DataDisks, infrav1.AlibabaDataDisk{Name: name, AlibabaDisk: infrav1.AlibabaDisk{SizeGiB: new(int32(20))}})
		}
	})
	instance, err := d.Create(t.Context(), newRequest(identity, full))
	if err == nil {
		id := identity
		id.ProviderID = instance.ProviderID
		if err := d.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	invalid, is := errors.AsType[*driver.InvalidConfigurationError](err)
	if !is || invalid.Field != "spec.image" || !strings.Contains(err.Error(), alibabafake.FullImage+" has 2 data disks") {
		t.Errorf("got %v, want an InvalidConfigurationError of spec.image", err)
	}
	wantNothingLeft(t, w)
	id := created(t, d, newConfig(t, withDisk))
	if found, err := d.Create(t.Context(), newRequest(identity, full)); err != nil || found.ProviderID != id.ProviderID {
		t.Errorf("for an instance that exists: got %+v and %v", found, err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestSecurityLockKeepsForeignDisks: ECS releases every disk with an instance that is locked for security reasons.
func TestSecurityLockKeepsForeignDisks(t *testing.T) {
	t.Parallel()
	for name, attach := range map[string]func(*alibabafake.Cloud, string) func() bool{
		"with tags of others": (*alibabafake.Cloud).Attach, "with the tags of the instance": (*alibabafake.Cloud).AttachCopy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, alibabafake.Options{})
			d := w.connect(t)
			id := created(t, d, newConfig(t, withDisk))
			exists := attach(w.cloud, instanceID(id))
			w.cloud.Lock(instanceID(id))
			for range 2 {
				if err := d.Delete(t.Context(), id); err == nil || !strings.Contains(err.Error(), "security") {
					t.Fatalf("while it is locked: got %v", err)
				}
			}
			w.cloud.Unlock(instanceID(id))
			if err := d.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
			if !exists() {
				t.Error("the disk of another owner was released")
			}
			wantNothingLeft(t, w)
		})
	}
}

// TestTagSkipsDisksWithInheritedTags: a disk of others is not the machine's to change.
func TestTagSkipsDisksWithInheritedTags(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	id := created(t, d, newConfig(t, withDisk))
	exists := w.cloud.AttachCopy(instanceID(id))
	moved := id
	moved.Owner.UID = "moved"
	if err := d.(driver.Tagger).Tag(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, cluster := range w.cloud.Tags(driver.TagClusterUID) {
		got[cluster]++
	}
	// The instance, its two disks and its network interface, and the disk of others.
	if diff := cmp.Diff(map[string]int{"moved": 4, "c": 1}, got); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if err := d.Delete(t.Context(), moved); err != nil {
		t.Error(err)
	}
	if !exists() {
		t.Error("the disk of another owner was released")
	}
	wantNothingLeft(t, w)
}

// TestLockedInstanceWithoutForeignDisksIsReleased with its own ones.
func TestLockedInstanceWithoutForeignDisksIsReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	id := created(t, d, newConfig(t, withDisk))
	w.cloud.Lock(instanceID(id))
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestEmptyListWithoutPermissionProvesNothing: ECS may answer a list that is not permitted like one without instances.
func TestEmptyListWithoutPermissionProvesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	id := created(t, d, newConfig(t, unchanged))
	w.clock.Advance(3 * time.Minute)
	w.cloud.Forbid("DescribeInstances")
	if _, err := d.Get(t.Context(), id); !driver.IsUnauthorized(err) {
		t.Errorf("get: got %v, want an UnauthorizedError", err)
	}
	if err := d.Delete(t.Context(), id); !driver.IsUnauthorized(err) {
		t.Errorf("delete: got %v, want an UnauthorizedError", err)
	}
	w.cloud.Permit("DescribeInstances")
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("after the deletion: got %v, want a NotFoundError", err)
	}
	wantNothingLeft(t, w)
}

// TestDisksThatMayNotBeListedAreNotReleased: the volumes of others would be among them.
func TestDisksThatMayNotBeListedAreNotReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	id := created(t, d, newConfig(t, unchanged))
	exists := w.cloud.Attach(instanceID(id))
	w.cloud.Forbid("DescribeDisks")
	if err := d.Delete(t.Context(), id); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
	w.cloud.Permit("DescribeDisks")
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if !exists() {
		t.Error("the disk of somebody else was released")
	}
	wantNothingLeft(t, w)
}
