// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"os"
	"testing"
)

func TestEnvironmentOfAnAPIServer(t *testing.T) {
	type variables struct{ collection, detector string }
	read := func() variables { return variables{os.Getenv(GarbageCollectionVariable), os.Getenv(MutationDetectorVariable)} }
	for name, test := range map[string]struct{ given, want variables }{
		"collects garbage rarely":                {variables{}, variables{collection: GarbageCollection}},
		"keeps a setting":                        {variables{collection: "50"}, variables{collection: "50"}},
		"does not look for mutations of objects": {variables{detector: "true"}, variables{collection: GarbageCollection}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range map[string]string{GarbageCollectionVariable: test.given.collection, MutationDetectorVariable: test.given.detector} {
				t.Setenv(variable, value)
				if value == "" {
					_ = os.Unsetenv(variable) // the end of the test restores it
				}
			}
			restore := setEnvironment()
			if got := read(); got != test.want {
				t.Errorf("an API server has %v, want %v", got, test.want)
			}
			if restore(); read() != test.given {
				t.Errorf("%v is left, want %v", read(), test.given)
			}
		})
	}
}
