// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEnvironment has no test beside it: it changes the environment of the process.
func TestEnvironment(t *testing.T) {
	type variables struct{ collection, detector string }
	read := func(variable string) string {
		at := slices.IndexFunc(Environment(), func(each string) bool { return strings.HasPrefix(each, variable+"=") })
		if at < 0 {
			return ""
		}
		return strings.TrimPrefix(Environment()[at], variable+"=")
	}
	for name, test := range map[string]struct{ given, want variables }{
		"collects garbage rarely":                {variables{}, variables{collection: collection}},
		"keeps a setting":                        {variables{collection: "50"}, variables{collection: "50"}},
		"does not look for mutations of objects": {variables{detector: "true"}, variables{collection: collection}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range map[string]string{collectionVariable: test.given.collection, detectorVariable: test.given.detector} {
				t.Setenv(variable, value)
				if value == "" {
					_ = os.Unsetenv(variable) // the end of the test restores it
				}
			}
			if got := (variables{read(collectionVariable), read(detectorVariable)}); got != test.want {
				t.Errorf("the environment has %v, want %v", got, test.want)
			}
			first, second := setEnvironment(), setEnvironment()
			first() // of two servers that start at a time
			if got := (variables{os.Getenv(collectionVariable), os.Getenv(detectorVariable)}); got != test.want {
				t.Errorf("this process has %v, want %v", got, test.want)
			}
			second()
			if got := (variables{os.Getenv(collectionVariable), os.Getenv(detectorVariable)}); got != test.given {
				t.Errorf("%v is left, want %v", got, test.given)
			}
		})
	}
}
