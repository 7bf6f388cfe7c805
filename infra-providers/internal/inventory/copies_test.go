// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// instances lists many instances, all of one machine or each of its own.
type instances struct {
	driver.Driver[fake.Config]
	many   int
	copies bool
}

func (c instances) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for n := range c.many {
			id := driver.Identity{UID: types.UID(fmt.Sprint(n)), Name: "m", Owner: driver.Owner{UID: "c", Namespace: "a", Name: "home"}, ProviderID: fmt.Sprintf("fake:///a/%d", n)}
			if c.copies {
				id.UID = "u"
			}
			if !yield(driver.Instance{ID: id.ProviderID, ProviderID: id.ProviderID, Identity: id, State: driver.Running}, nil) {
				return
			}
		}
	}
}

// TestManyCopiesDelayNoRead has reads without a provider ID, of the machine that has copies and of another with its UID. What Get does
// with the entries is in due and find. Each entry that they compare costs memory, which is counted, so the test is not parallel.
func TestManyCopiesDelayNoRead(t *testing.T) {
	v := New[fake.Config](instances{fake.New(fake.Options{}), 5_000, true}, Options{Interval: time.Hour, Unsettled: time.Second, Now: time.Now, Changed: func(driver.Identity) {}})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m", "other"} {
		id := driver.Identity{UID: "u", Name: name, Owner: driver.Owner{UID: "c", Namespace: "a", Name: "home"}}
		got := testing.AllocsPerRun(10, func() {
			_, due := v.due(id)
			if _, found := v.find(id); due || found {
				t.Errorf("machine %q: due for a list: %t, found: %t", name, due, found)
			}
		})
		if got > 3 {
			t.Errorf("machine %q: a read allocates %v times", name, got)
		}
	}
}

// TestManyCopiesOfAMachineCostNoMore: a server that a Secret names may show any number of instances with the tags of one.
func TestManyCopiesOfAMachineCostNoMore(t *testing.T) {
	refresh := func(copies bool) time.Duration {
		v := New[fake.Config](instances{fake.New(fake.Options{}), 40_000, copies}, Options{Interval: time.Minute, Unsettled: time.Second, Now: time.Now, Changed: func(driver.Identity) {}})
		var took time.Duration
		for range 2 { // the second list replaces what the first showed
			began := time.Now()
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			took = time.Since(began)
		}
		return took
	}
	others, copies := refresh(false), refresh(true)
	if copies > 5*others+200*time.Millisecond {
		t.Errorf("a list of copies takes %s, one of as many machines %s", copies, others)
	}
}
