// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google"
)

// TestFiltersQuoteNothingElse: a value cannot add a condition.
func TestFiltersQuoteNothingElse(t *testing.T) {
	t.Parallel()
	got := google.UIDFilter(driver.Identity{UID: `x" OR labels.a="b`})
	if want := `labels.drover-machine-uid="x_22_20_4f_52_20labels_2ea_3d_22b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := google.OwnerFilter(driver.Owner{}), "labels.drover-machine-uid:*"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSeveralExpressionsHaveParentheses, as Compute Engine requires.
func TestSeveralExpressionsHaveParentheses(t *testing.T) {
	t.Parallel()
	got := google.OwnerFilter(driver.Owner{Namespace: "team", Name: "home"})
	for expression := range strings.SplitSeq(got, " AND ") {
		if !strings.HasPrefix(expression, "(") || !strings.HasSuffix(expression, ")") {
			t.Errorf("%q has no parentheses in %q", expression, got)
		}
	}
}
