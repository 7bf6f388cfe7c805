// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheConsolesFileIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1000
	path := filepath.Join(t.TempDir(), "console.log")
	written := 0
	for i := range 100 {
		content := bytes.Repeat([]byte{byte('a' + i%26)}, 70)
		if err := appendBounded(path, content, limit); err != nil {
			t.Fatal(err)
		}
		written += len(content)
	}
	older, err := os.ReadFile(path + olderConsole)
	if err != nil {
		t.Fatal(err)
	}
	newer, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(older) > limit || len(newer) > limit || len(older)+len(newer) < limit {
		t.Errorf("%d bytes became %d and %d, want %d each at most and the last of them all", written, len(older), len(newer), limit)
	}
	if last := newer[len(newer)-1]; last != 'a'+99%26 {
		t.Errorf("it ends with %q", last)
	}
}
