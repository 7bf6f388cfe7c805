// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefaultsAreNotWrittenBack checks the same object twice: the defaults that a check sets are not those of its source.
func TestDefaultsAreNotWrittenBack(t *testing.T) {
	t.Parallel()
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const config = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: a}\nspec: {operatingSystem: ubunto}\n"
	first, err := v.Check("f", strings.NewReader(config))
	if err != nil || len(first) != 1 || len(first[0].Problems) != 1 {
		t.Fatalf("got %+v, error %v", first, err)
	}
	again, err := v.Check("f", strings.NewReader(config+"---\n"+config))
	if err != nil || len(again) != 2 {
		t.Fatalf("got %+v, error %v", again, err)
	}
	if diff := cmp.Diff(first[0].Problems, again[1].Problems); diff != "" {
		t.Errorf("problems of the second (-first +second):\n%s", diff)
	}
}

// TestListsAreBounded has Lists in Lists, deeper than any parser should follow, and a List of many objects.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const depth = 5000
	deep := strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, depth) + strings.Repeat(`]}`, depth)
	results, err := v.Check("f", strings.NewReader(deep))
	if err != nil || len(results) > 1 || len(results) == 1 && len(results[0].Problems) != 1 {
		t.Errorf("got %d results, error %v", len(results), err)
	}
	nested := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[{},{"apiVersion":"v1","kind":"A"},{"apiVersion":"v1","kind":"B"}]},{"apiVersion":"v1","kind":"C"}]}`
	results, err = v.Check("f", strings.NewReader(nested))
	if err != nil || len(results) != 3 || results[0].Object != "A" || results[1].Object != "B" || results[2].Object != "C" {
		t.Errorf("a List in a List: got %+v, error %v", results, err)
	}
	const n = 300
	wide := "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n", n)
	results, err = v.Check("f", strings.NewReader(wide))
	if err != nil || len(results) != n || !results[n-1].Skipped || results[n-1].Document != 1 {
		t.Errorf("got %d results, error %v", len(results), err)
	}
}
