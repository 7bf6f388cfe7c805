// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestEndpointsAreChecked(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{
		"--endpoint=nowhere":           "--endpoint must be a URL",
		"--endpoint=https://x/compute": "--endpoint must be a URL without a path",
		"--domain=https://x":           "--domain must be the name of a domain",
		"--domain=localhost":           "--domain must be the name of a domain",
	} {
		if err := run(t.Context(), []string{argument}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}
