// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package keysize_test

import (
	"slices"
	"strings"
	"testing"

	"drover.io/runtime/keysize"
	"drover.io/runtime/keysize/keysizetest"
)

func TestLargeKeysAreRefused(t *testing.T) {
	t.Parallel()
	usual, large := keysizetest.Certificate(t, keysize.MaxRSA), keysizetest.Certificate(t, keysize.MaxRSA+1)
	for name, test := range map[string]struct {
		content []byte
		refused bool
	}{
		"nothing":                          {nil, false},
		"no PEM":                           {[]byte("x"), false},
		"the largest key":                  {usual, false},
		"a larger one":                     {large, true},
		"a larger one at last":             {slices.Concat(usual, []byte("# a comment\n"), large), true},
		"one after what is no certificate": {slices.Concat([]byte("-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"), large), true},
	} {
		if err := keysize.CheckCertificates(test.content); (err != nil) != test.refused {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLongPrivateKeysAreRefused(t *testing.T) {
	t.Parallel()
	for length, refused := range map[int]bool{0: false, 16 << 10: false, 16<<10 + 1: true} {
		if err := keysize.CheckPrivateKey([]byte(strings.Repeat("x", length))); (err != nil) != refused {
			t.Errorf("%d bytes: got %v", length, err)
		}
	}
}
