// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestKeepsNothingOfDeletedInstances has a cloud that lists instances as terminated for a while, as EC2 does.
func TestKeepsNothingOfDeletedInstances(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"read once more": true, "never read again": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, fake.Options{DeleteReads: 1000})
			for n := range 100 {
				made, err := b.Create(t.Context(), request(n))
				if err != nil {
					t.Fatal(err)
				}
				b.want(n, driver.Running)
				if err := b.Delete(t.Context(), request(n).Identity); err != nil {
					t.Fatal(err)
				}
				b.cloud.Set(request(n).Identity.UID, func(i *driver.Instance) { i.State = driver.Terminated })
				if read {
					b.want(n, driver.Terminated)
				}
				b.pass(time.Minute)
				if err := b.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.cloud.DestroyInstance(made.ProviderID) // EC2 shows it no more
			}
			b.pass(time.Minute)
			if err := b.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(b.entries)+len(b.byUID) > 0 {
				t.Errorf("%d entries of %d machines are left", len(b.entries), len(b.byUID))
			}
		})
	}
}

// TestCopyDoesNotHideAMissingInstance: another instance has the same tags, and the original is deleted.
func TestCopyDoesNotHideAMissingInstance(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	original, err := b.Create(t.Context(), request(0))
	if err != nil {
		t.Fatal(err)
	}
	copied := b.cloud.Copy(original.ProviderID)
	if copied == "" || copied == original.ProviderID {
		t.Fatalf("the copy is %q", copied)
	}
	id := request(0).Identity
	id.ProviderID = original.ProviderID
	for range 3 {
		b.pass(time.Minute)
		if got, err := b.Get(t.Context(), id); err != nil || got.ProviderID != original.ProviderID {
			t.Fatalf("got %q and %v, want the original", got.ProviderID, err)
		}
	}
	b.cloud.DestroyInstance(original.ProviderID)
	for range 3 {
		b.pass(time.Minute)
		if got, err := b.Get(t.Context(), id); !driver.IsNotFound(err) {
			t.Fatalf("got %q and %v, want a NotFoundError", got.ProviderID, err)
		}
	}
}

// TestMissingInstanceIsReportedOnce, by the first list that does not show it.
func TestMissingInstanceIsReportedOnce(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	b.make(1)
	b.want(0, driver.Running)
	b.cloud.Destroy(request(0).Identity.UID)
	for range 3 {
		b.pass(time.Minute)
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.changed) != 1 {
		t.Errorf("told %q, want one machine once", b.changed)
	}
}

// TestTooManyInstancesAreNotKept has more instances than may be kept, and then fewer again.
func TestTooManyInstancesAreNotKept(t *testing.T) {
	t.Parallel()
	b := newFixture(t, fake.Options{})
	most, kept := 3, atomic.Int64{}
	b.options.Max, b.options.Kept = func() int { return most }, &kept
	b.make(4)
	for range 2 {
		if err := b.Refresh(t.Context()); !errors.Is(err, ErrTooMany) || kept.Load() != 0 || len(b.entries) > 0 {
			t.Errorf("got %v and %d instances are kept", err, kept.Load())
		}
		b.want(0, driver.Running) // by itself
		b.pass(time.Minute)
	}
	b.cloud.Set(request(0).Identity.UID, func(i *driver.Instance) { i.Message = strings.Repeat("x", 2048) })
	most = 5
	if err := b.Refresh(t.Context()); !errors.Is(err, ErrTooMany) {
		t.Errorf("a long message counts for nothing: got %v", err)
	}
	b.cloud.Set(request(0).Identity.UID, func(i *driver.Instance) { i.Message = "" })
	b.pass(time.Minute)
	most = 4
	if err := b.Refresh(t.Context()); err != nil || kept.Load() != 4 {
		t.Errorf("got %v and %d instances are kept, want 4", err, kept.Load())
	}
}
