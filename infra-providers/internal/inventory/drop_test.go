// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
			if len(b.entries)+len(b.copies) > 0 {
				t.Errorf("%d entries of %d machines are left", len(b.entries), len(b.copies))
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

// otherAnswers is a cloud that answers with another instance each time, and lists nothing after the first list.
type otherAnswers struct {
	driver.Driver[fake.Config]
	answers int
	long    bool
}

func (o *otherAnswers) Get(_ context.Context, id driver.Identity) (driver.Instance, error) {
	o.answers++
	found := driver.Instance{Identity: id, ID: fmt.Sprint(o.answers), ProviderID: fmt.Sprint("fake://", o.answers), State: driver.Pending}
	if o.long {
		found.FailureDomain = strings.Repeat("x", 1<<20)
	}
	return found, nil
}

func (o *otherAnswers) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		if o.answers > 0 {
			yield(driver.Instance{}, errors.New("the list fails"))
		}
	}
}

// TestDirectAnswersAreBounded as lists are: the server of a Secret chooses their IDs and their length.
func TestDirectAnswersAreBounded(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]bool{"in number": false, "in bytes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept atomic.Int64
			cloud, now := &otherAnswers{long: long}, time.Now()
			v := New[fake.Config](cloud, Options{
				Interval: time.Minute, Unsettled: time.Second, Now: func() time.Time { return now }, Changed: func(driver.Identity) {}, Max: func() int { return 3 }, Kept: &kept,
			})
			for n := range 100 {
				now = now.Add(5 * time.Second)
				if _, err := v.Get(t.Context(), driver.Identity{UID: types.UID(fmt.Sprint(n)), Name: "m"}); err != nil {
					t.Fatal(err)
				}
				id := driver.Identity{UID: "one", Name: "m", ProviderID: "fake://one"}
				if _, err := v.Get(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if len(v.entries) > 3 || v.cost > 3 || kept.Load() != int64(v.cost) {
				t.Errorf("%d instances of the cost %d are kept, and %d are reported", len(v.entries), v.cost, kept.Load())
			}
		})
	}
}

// TestAnswerWithAnotherIDIsNotKept: it would be another entry each time.
func TestAnswerWithAnotherIDIsNotKept(t *testing.T) {
	t.Parallel()
	v := New[fake.Config](&otherAnswers{}, Options{Interval: time.Minute, Unsettled: time.Second, Now: time.Now, Changed: func(driver.Identity) {}})
	for range 10 {
		if _, err := v.Get(t.Context(), driver.Identity{UID: "one", Name: "m", ProviderID: "fake://one"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.entries) > 0 {
		t.Errorf("%d answers are kept", len(v.entries))
	}
}
