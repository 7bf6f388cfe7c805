// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yamllimit_test

import (
	"errors"
	"strings"
	"testing"

	"drover.io/runtime/yamllimit"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		want    error
	}{
		"accepts what people write":       {"clouds:\n  one:\n    auth: {auth_url: https://[fd00::1]:5000/v3}\n", nil},
		"accepts text that is long":       {"a: " + strings.Repeat("x-", yamllimit.MaxBytes/2-10), nil},
		"refuses text that is longer":     {"a: " + strings.Repeat("x", yamllimit.MaxBytes), yamllimit.ErrSize},
		"refuses many items of a block":   {strings.Repeat("-\n", yamllimit.MaxElements+1), yamllimit.ErrElements},
		"refuses many items of a flow":    {"[" + strings.Repeat("~,", yamllimit.MaxElements+1) + "]", yamllimit.ErrElements},
		"refuses many keys":               {strings.Repeat("a: b\n", yamllimit.MaxElements+1), yamllimit.ErrElements},
		"refuses many keys without colon": {strings.Repeat("? b\n", yamllimit.MaxElements+1), yamllimit.ErrElements},
	} {
		if err := yamllimit.Check([]byte(test.content)); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMayHaveAliases(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"a: &x b\nc: *x":     true,
		"*x &x":              true,
		"a: '*&'":            true, // a string may look like one
		"a: *x":              false,
		"a: &x b":            false,
		"a: team-*-& b: c*d": false,
	} {
		if got := yamllimit.MayHaveAliases([]byte(content)); got != want {
			t.Errorf("%q: got %t", content, got)
		}
	}
}
