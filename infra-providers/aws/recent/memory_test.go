// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package recent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/aws/recent"
	"drover.io/infra-providers/driver"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	made := driver.Instance{ID: "i-1", ProviderID: "aws:///a/i-1", Identity: driver.Identity{UID: "u", ProviderID: "aws:///a/i-1"}}
	byUID, byID, other := driver.Identity{UID: "u"}, driver.Identity{ProviderID: "aws:///a/i-1"}, driver.Identity{UID: "u", ProviderID: "aws:///a/i-2"}
	type knows struct{ ByUID, ByID, Other, Unclear, Young bool }
	for name, test := range map[string]struct {
		happens func(m *recent.Memory, wait func(time.Duration))
		want    knows
	}{
		"knows of nothing that it is not there at first": {func(*recent.Memory, func(time.Duration)) {}, knows{Young: true}},
		"knows nothing":                   {func(_ *recent.Memory, wait func(time.Duration)) { wait(recent.Window) }, knows{}},
		"knows what was made":             {func(m *recent.Memory, _ func(time.Duration)) { m.Made(made) }, knows{ByUID: true, ByID: true, Young: true}},
		"knows what may have been made":   {func(m *recent.Memory, _ func(time.Duration)) { m.Unclear("u") }, knows{Unclear: true, Young: true}},
		"is sure once it was made":        {func(m *recent.Memory, _ func(time.Duration)) { m.Unclear("u"); m.Made(made) }, knows{ByUID: true, ByID: true, Young: true}},
		"forgets what was deleted":        {func(m *recent.Memory, _ func(time.Duration)) { m.Unclear("u"); m.Made(made); m.Forget("u") }, knows{Young: true}},
		"forgets after the window":        {func(m *recent.Memory, wait func(time.Duration)) { m.Made(made); wait(recent.Window) }, knows{}},
		"remembers to the window's end":   {func(m *recent.Memory, wait func(time.Duration)) { m.Made(made); wait(recent.Window - 1) }, knows{ByUID: true, ByID: true, Young: true}},
		"is not unclear after the window": {func(m *recent.Memory, wait func(time.Duration)) { m.Unclear("u"); wait(recent.Window) }, knows{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(0, 0)
			m := recent.New(func() time.Time { return now })
			test.happens(m, func(d time.Duration) { now = now.Add(d) })
			var got knows
			_, got.ByUID = m.Instance(byUID)
			_, got.ByID = m.Instance(byID)
			_, got.Other = m.Instance(other)
			got.Unclear, got.Young = m.IsUnclear("u"), m.IsYoung()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemoryTellsForHowLongATokenIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	m := recent.New(func() time.Time { return now })
	first := m.Refused("u")
	now = now.Add(time.Minute)
	m.Unclear("other")
	again := m.Refused("u")
	m.Made(driver.Instance{Identity: driver.Identity{UID: "u"}})
	after := m.Refused("u")
	if diff := cmp.Diff([]time.Duration{0, time.Minute, 0}, []time.Duration{first, again, after}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
