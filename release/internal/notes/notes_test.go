// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package notes

import "testing"

const changelog = `# Changelog

## [Unreleased]

### Added
- what comes next

## [0.2.0] - 2026-01-02

- second

## 0.1.0
- first
`

func TestFor(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.1.0":      "- first\n",
		"v0.2.0":      "- second\n",
		"v0.3.0-rc.1": "### Added\n- what comes next\n",
	} {
		if got, err := For(changelog, version); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", version, got, err, want)
		}
	}
	if got, err := For("# Changelog\n", "v0.1.0"); err == nil {
		t.Errorf("a changelog without sections: got %q, want an error", got)
	}
}
