// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package createcache_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
)

func of(uid types.UID) driver.Identity {
	return driver.Identity{UID: uid, Name: "worker", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
}

func TestCache(t *testing.T) {
	t.Parallel()
	byUID, byID, other := of("u"), driver.Identity{ProviderID: "aws:///a/i-1"}, of("u")
	tagged := byUID
	tagged.ProviderID, tagged.Owner.UID, other.ProviderID = "aws:///a/i-1", "moved", "aws:///a/i-2"
	created := driver.Instance{ID: "i-1", ProviderID: "aws:///a/i-1", Identity: tagged}
	type state struct{ ByUID, ByID, Other, Unanswered, InStartupWindow bool }
	for name, test := range map[string]struct {
		steps func(c *createcache.Cache, wait func(time.Duration))
		want  state
	}{
		"is in the startup window at first":            {func(*createcache.Cache, func(time.Duration)) {}, state{InStartupWindow: true}},
		"is empty after the startup window":            {func(_ *createcache.Cache, wait func(time.Duration)) { wait(createcache.Window) }, state{}},
		"has a created instance":                       {func(c *createcache.Cache, _ func(time.Duration)) { c.AddCreated(created) }, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"has an unanswered request":                    {func(c *createcache.Cache, _ func(time.Duration)) { c.AddUnanswered(byUID, "") }, state{Unanswered: true, InStartupWindow: true}},
		"resolves an unanswered request by its answer": {func(c *createcache.Cache, _ func(time.Duration)) { c.AddUnanswered(byUID, ""); c.AddCreated(created) }, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"has an instance that is listed before its request is answered": {func(c *createcache.Cache, _ func(time.Duration)) {
			c.AddUnanswered(byUID, "")
			c.AddListed(created)
		}, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"has no instance that is listed as terminated": {func(c *createcache.Cache, _ func(time.Duration)) {
			c.AddCreated(created)
			c.AddUnanswered(byUID, "")
			c.AddListed(driver.Instance{ProviderID: created.ProviderID, Identity: tagged, State: driver.Terminated})
		}, state{InStartupWindow: true}},
		"has no older instance that is listed": {func(c *createcache.Cache, _ func(time.Duration)) { c.AddListed(created) }, state{InStartupWindow: true}},
		"deletes an instance": {func(c *createcache.Cache, _ func(time.Duration)) {
			c.AddUnanswered(byUID, "")
			c.AddCreated(created)
			c.Delete(byUID)
		}, state{InStartupWindow: true}},
		"expires an instance after the window": {func(c *createcache.Cache, wait func(time.Duration)) { c.AddCreated(created); wait(createcache.Window) }, state{}},
		"keeps an instance to the end of the window": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddCreated(created)
			wait(createcache.Window - 1)
		}, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"expires an unanswered request after the window": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddUnanswered(byUID, "")
			wait(createcache.Window)
		}, state{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			c := createcache.New(clock)
			test.steps(c, func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) })
			var got state
			_, got.ByUID = c.Instance(byUID)
			_, got.ByID = c.Instance(byID)
			_, got.Other = c.Instance(other)
			got.Unanswered, got.InStartupWindow = c.Unanswered(byUID), c.InStartupWindow()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnotherTokenAfterAMismatch may be used after the window, unless a request since then has no answer: it may have created an
// instance with another one of the tokens that derive from parameters.
func TestAnotherTokenAfterAMismatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps func(c *createcache.Cache, wait func(time.Duration))
		want  bool
	}{
		"the first time":   {func(*createcache.Cache, func(time.Duration)) {}, false},
		"after the window": {func(c *createcache.Cache, wait func(time.Duration)) { c.AddMismatch(of("u")); wait(createcache.Window) }, true},
		"to the end of it": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			wait(createcache.Window - 1)
		}, false},
		"of another instance": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("other"))
			wait(createcache.Window)
		}, false},
		"after an instance": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			wait(createcache.Window)
			c.AddCreated(driver.Instance{Identity: of("u")})
		}, false},
		"after a listed one": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			wait(createcache.Window)
			c.AddListed(driver.Instance{Identity: of("u")})
		}, false},
		"without an answer": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			wait(createcache.Window)
			c.AddUnanswered(of("u"), "a")
		}, false},
		"of another request": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			wait(createcache.Window)
			c.AddUnanswered(of("other"), "a")
		}, true},
		"once it was awaited": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddMismatch(of("u"))
			c.AddUnanswered(of("u"), "a")
			wait(createcache.Window)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			c := createcache.New(clock)
			test.steps(c, func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) })
			if got := c.AddMismatch(of("u")); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestRefusalsAreCountedByPlace: the first request for a place has the same token in every process.
func TestRefusalsAreCountedByPlace(t *testing.T) {
	t.Parallel()
	c := createcache.New(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	c.AddRefusal(of("u"), "a")
	c.AddRefusal(of("u"), "a")
	c.AddRefusal(of("u"), "b")
	c.Delete(of("u")) // an earlier token stays refused
	if diff := cmp.Diff([]int{2, 1, 0}, []int{c.Refusals(of("u"), "a"), c.Refusals(of("u"), "b"), c.Refusals(of("other"), "a")}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInvalidRequestsOfProcessesDiffer: a process may not meet each refusal of an earlier one.
func TestInvalidRequestsOfProcessesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{0: true}
	for process := range 3 {
		c := createcache.New(clocktesting.NewFakePassiveClock(time.Unix(int64(1000*process), 0)))
		if got := c.Refusals(of("u"), "a"); got != 0 {
			t.Errorf("the first request is number %d, want that of every process", got)
		}
		for range 3 {
			c.AddInvalid(of("u"), "a")
			number := c.Refusals(of("u"), "a")
			if seen[number] {
				t.Errorf("number %d was used before", number)
			}
			seen[number] = true
		}
	}
}

// TestMachinesOfTheSameUIDAreDistinguished: a tenant may give a machine the UID of another tenant's.
func TestMachinesOfTheSameUIDAreDistinguished(t *testing.T) {
	t.Parallel()
	c := createcache.New(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	own, other := of("u"), of("u")
	other.Owner.Namespace = "elsewhere"
	c.AddUnanswered(own, "a")
	c.Delete(other)
	if !c.Unanswered(own) || c.Unanswered(other) {
		t.Error("the request of one machine counts as that of another")
	}
}
