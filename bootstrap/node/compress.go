// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"compress/gzip"
)

// Compress writes content as gzip. It is deterministic: no name, no time.
func Compress(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                                 // a bytes.Buffer does not fail
	_ = w.Close()
	return out.Bytes()
}
