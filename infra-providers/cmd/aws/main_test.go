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
		"--endpoint=nowhere":     "--endpoint must be a URL",
		"--sts-endpoint=ftp://x": "--sts-endpoint must be a URL",
	} {
		if err := run(t.Context(), []string{argument}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}

func TestEndpointsOfTheEnvironmentAreChecked(t *testing.T) {
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_STS"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "nowhere")
			want := "the environment variable " + variable + " must be a URL"
			if err := run(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
