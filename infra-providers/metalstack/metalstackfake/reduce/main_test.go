// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"
)

// TestReducedDescriptionIsThatOfTheModule fails after an update of the module until reduce was run.
func TestReducedDescriptionIsThatOfTheModule(t *testing.T) {
	t.Parallel()
	full, err := read()
	if err != nil {
		t.Fatal(err)
	}
	want, err := reduce(full)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../metal-api.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("metal-api.json is not up to date: run the command reduce")
	}
}
