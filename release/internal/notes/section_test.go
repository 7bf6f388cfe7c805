// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package notes

import (
	"strings"
	"testing"
)

// TestASectionIsThatOfOneVersion has versions that begin alike, and headings in the forms that changelogs have.
func TestASectionIsThatOfOneVersion(t *testing.T) {
	t.Parallel()
	const text = "# Changelog\n\nAll of it.\n\n## [0.1.0-rc.1] - 2026-01-01\n\n- candidate\n\n## 0.10.0 (2026-02-01)\n\n- ten\n\n### Fixed\n\n- ## no heading\n\n## [0.1.0](https://example.org/0.1.0)\n\n- first\n\n## [0.0.1]\n"
	for version, want := range map[string]string{
		"v0.1.0-rc.1": "- candidate\n",
		"v0.10.0":     "- ten\n\n### Fixed\n\n- ## no heading\n",
		"v0.0.1":      "\n",
	} {
		if got, err := For(text, version); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", version, got, err, want)
		}
	}
	for _, version := range []string{"v0.1", "v0.1.1", "v1.0.0", "vAll"} {
		if got, err := For(text, version); err == nil || got != "" || !strings.Contains(err.Error(), strings.TrimPrefix(version, "v")) {
			t.Errorf("%s: got %q, %v", version, got, err)
		}
	}
	if got, err := For(strings.ReplaceAll(text, "\n", "\r\n"), "v0.1.0-rc.1"); err != nil || got != "- candidate\n" {
		t.Errorf("line ends of Windows: got %q, %v", got, err)
	}
	if got, err := For("## [Unreleased]\n- next\n## [0.1.0]\n- first\n", "v0.1.0"); err != nil || got != "- first\n" {
		t.Errorf("a version that has a section: got %q, %v", got, err)
	}
}
