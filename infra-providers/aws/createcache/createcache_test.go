// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package createcache_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/aws/createcache"
	"drover.io/infra-providers/driver"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	made := driver.Instance{ID: "i-1", ProviderID: "aws:///a/i-1", Identity: driver.Identity{UID: "u", ProviderID: "aws:///a/i-1"}}
	byUID, byID, other := driver.Identity{UID: "u"}, driver.Identity{ProviderID: "aws:///a/i-1"}, driver.Identity{UID: "u", ProviderID: "aws:///a/i-2"}
	type knows struct{ ByUID, ByID, Other, Unclear, Young bool }
	for name, test := range map[string]struct {
		happens func(c *createcache.Cache, wait func(time.Duration))
		want    knows
	}{
		"knows of nothing that it is not there at first": {func(*createcache.Cache, func(time.Duration)) {}, knows{Young: true}},
		"knows nothing":                   {func(_ *createcache.Cache, wait func(time.Duration)) { wait(createcache.Window) }, knows{}},
		"knows what was made":             {func(c *createcache.Cache, _ func(time.Duration)) { c.Created(made) }, knows{ByUID: true, ByID: true, Young: true}},
		"knows what may have been made":   {func(c *createcache.Cache, _ func(time.Duration)) { c.Unclear("u", "") }, knows{Unclear: true, Young: true}},
		"is sure once it was made":        {func(c *createcache.Cache, _ func(time.Duration)) { c.Unclear("u", ""); c.Created(made) }, knows{ByUID: true, ByID: true, Young: true}},
		"forgets what was deleted":        {func(c *createcache.Cache, _ func(time.Duration)) { c.Unclear("u", ""); c.Created(made); c.Forget("u") }, knows{Young: true}},
		"forgets after the window":        {func(c *createcache.Cache, wait func(time.Duration)) { c.Created(made); wait(createcache.Window) }, knows{}},
		"remembers to the window's end":   {func(c *createcache.Cache, wait func(time.Duration)) { c.Created(made); wait(createcache.Window - 1) }, knows{ByUID: true, ByID: true, Young: true}},
		"is not unclear after the window": {func(c *createcache.Cache, wait func(time.Duration)) { c.Unclear("u", ""); wait(createcache.Window) }, knows{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(0, 0)
			c := createcache.New(func() time.Time { return now })
			test.happens(c, func(d time.Duration) { now = now.Add(d) })
			var got knows
			_, got.ByUID = c.Instance(byUID)
			_, got.ByID = c.Instance(byID)
			_, got.Other = c.Instance(other)
			got.Unclear, got.Young = c.IsUnclear("u"), c.IsYoung()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemoryTellsForHowLongATokenIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := createcache.New(func() time.Time { return now })
	first := c.Refused("u")
	now = now.Add(time.Minute)
	c.Unclear("other", "")
	again := c.Refused("u")
	c.Created(driver.Instance{Identity: driver.Identity{UID: "u"}})
	after := c.Refused("u")
	if diff := cmp.Diff([]time.Duration{0, time.Minute, 0}, []time.Duration{first, again, after}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
