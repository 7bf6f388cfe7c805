// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestFlagsAreChecked(t *testing.T) {
	t.Chdir(t.TempDir()) // a relative folder would be made here
	for argument, want := range map[string]string{
		"--state-dir=":      "--state-dir must be the absolute path",
		"--state-dir=hosts": "--state-dir must be the absolute path",
	} {
		if err := run(t.Context(), []string{argument}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}
