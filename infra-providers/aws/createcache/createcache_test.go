// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package createcache_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"drover.io/infra-providers/aws/createcache"
	"drover.io/infra-providers/driver"
)

func TestCache(t *testing.T) {
	t.Parallel()
	created := driver.Instance{ID: "i-1", ProviderID: "aws:///a/i-1", Identity: driver.Identity{UID: "u", ProviderID: "aws:///a/i-1"}}
	byUID, byID, other := driver.Identity{UID: "u"}, driver.Identity{ProviderID: "aws:///a/i-1"}, driver.Identity{UID: "u", ProviderID: "aws:///a/i-2"}
	type state struct{ ByUID, ByID, Other, Unanswered, InStartupWindow bool }
	for name, test := range map[string]struct {
		steps func(c *createcache.Cache, wait func(time.Duration))
		want  state
	}{
		"is in the startup window at first":            {func(*createcache.Cache, func(time.Duration)) {}, state{InStartupWindow: true}},
		"is empty after the startup window":            {func(_ *createcache.Cache, wait func(time.Duration)) { wait(createcache.Window) }, state{}},
		"has a created instance":                       {func(c *createcache.Cache, _ func(time.Duration)) { c.AddCreated(created) }, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"has an unanswered request":                    {func(c *createcache.Cache, _ func(time.Duration)) { c.AddUnanswered("u", "") }, state{Unanswered: true, InStartupWindow: true}},
		"resolves an unanswered request by its answer": {func(c *createcache.Cache, _ func(time.Duration)) { c.AddUnanswered("u", ""); c.AddCreated(created) }, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"deletes an instance": {func(c *createcache.Cache, _ func(time.Duration)) {
			c.AddUnanswered("u", "")
			c.AddCreated(created)
			c.Delete("u")
		}, state{InStartupWindow: true}},
		"expires an instance after the window": {func(c *createcache.Cache, wait func(time.Duration)) { c.AddCreated(created); wait(createcache.Window) }, state{}},
		"keeps an instance to the end of the window": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddCreated(created)
			wait(createcache.Window - 1)
		}, state{ByUID: true, ByID: true, InStartupWindow: true}},
		"expires an unanswered request after the window": {func(c *createcache.Cache, wait func(time.Duration)) {
			c.AddUnanswered("u", "")
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
			got.Unanswered, got.InStartupWindow = c.Unanswered("u"), c.InStartupWindow()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddMismatchReturnsItsDuration(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c := createcache.New(clock)
	first := c.AddMismatch("u")
	clock.SetTime(clock.Now().Add(time.Minute))
	c.AddUnanswered("other", "")
	again := c.AddMismatch("u")
	c.AddCreated(driver.Instance{Identity: driver.Identity{UID: "u"}})
	after := c.AddMismatch("u")
	if diff := cmp.Diff([]time.Duration{0, time.Minute, 0}, []time.Duration{first, again, after}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
