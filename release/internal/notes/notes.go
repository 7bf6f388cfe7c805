// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package notes takes the notes of a release out of the changelog, which is in the format of keepachangelog.com.
package notes

import (
	"fmt"
	"strings"
)

// For returns the section of a version, without its heading. A version that has none gets the section Unreleased, which is
// what a release candidate is made from; a changelog that has neither is an error.
func For(changelog, version string) (string, error) {
	for _, title := range []string{strings.TrimPrefix(version, "v"), "Unreleased"} {
		if section, ok := find(changelog, title); ok {
			return section, nil
		}
	}
	return "", fmt.Errorf("the changelog has a section for neither %s nor Unreleased", version)
}

func find(changelog, title string) (string, bool) {
	var section []string
	inside := false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if inside {
				break
			}
			name, _, _ := strings.Cut(strings.TrimSpace(heading), " ")
			inside = strings.Trim(name, "[]") == title
			continue
		}
		if inside {
			section = append(section, line)
		}
	}
	return strings.TrimSpace(strings.Join(section, "")) + "\n", inside || len(section) > 0
}
