// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime/debug"
	"testing"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	recorded := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}
	dirty := []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}}
	for name, test := range map[string]struct {
		release  string
		settings []debug.BuildSetting
		want     string
	}{
		"names the release":                  {"v1.2.3", recorded, "v1.2.3 (revision abc, go1)"},
		"names the commit without a release": {"", recorded, "unreleased (revision abc, go1)"},
		"says that files had changed":        {"", dirty, "unreleased (revision abc-dirty, go1)"},
		"says that nothing was recorded":     {"", nil, "unreleased (revision unknown, go1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := info(test.release, &debug.BuildInfo{GoVersion: "go1", Settings: test.settings}).String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if Get().Go == "" {
		t.Error("a binary does not know its compiler")
	}
}
