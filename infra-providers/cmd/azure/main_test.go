// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{
		"--cloud=Public":                  "--cloud must be AzurePublic, AzureGovernment or AzureChina",
		"--cloud=":                        "--cloud must be AzurePublic, AzureGovernment or AzureChina",
		"--endpoint=nowhere":              "--endpoint must be a URL",
		"--endpoint=http://x":             "--endpoint must begin with https://",
		"--authority-host=nowhere":        "--authority-host must be a URL",
		"--authority-host=http://login.x": "--authority-host must begin with https://",
	} {
		if err := run(t.Context(), []string{argument}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}
