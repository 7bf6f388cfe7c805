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
		"--state-dir=":               "--state-dir must be the absolute path",
		"--state-dir=machines":       "--state-dir must be the absolute path",
		"--image-dir=images":         "--image-dir must be the absolute path",
		"--image-max-size=64":        "--image-max-size must be a size such as 64Gi, at least 1Mi",
		"--image-max-size=big":       "--image-max-size must be a size",
		"--host-name=a b":            "--host-name must have letters",
		"--image-download-timeout=0": "--image-download-timeout must be at least 1s",
	} {
		if err := run(t.Context(), []string{argument}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}
