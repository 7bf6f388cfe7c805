// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package requesterror

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTruncatedTextsAreBeginnings has texts of characters of one to four bytes, and limits around each of their borders.
func TestTruncatedTextsAreBeginnings(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{1}))
	characters := []string{"a", "é", "節", "𝄞", "\n", "…"}
	for range 500 {
		var text strings.Builder
		for range r.IntN(20) {
			text.WriteString(characters[r.IntN(len(characters))])
		}
		whole := text.String()
		for limit := range len(whole) + 2 {
			got := TruncateTo(whole, limit)
			cut, shortened := strings.CutSuffix(got, "…")
			switch {
			case len(whole) <= limit:
				if got != whole {
					t.Fatalf("%q in %d bytes becomes %q", whole, limit, got)
				}
			case !shortened || !strings.HasPrefix(whole, cut) || len(cut) > limit || len(cut) < limit-3 || !utf8.ValidString(got):
				t.Fatalf("%q in %d bytes becomes %q", whole, limit, got)
			}
		}
	}
}
