// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"compress/gzip"
)

// Compress compresses bootstrap data with gzip. It has no time stamp, because a repeated request must be identical.
func Compress(data []byte) []byte {
	var out bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // fails for an unknown level only
	_, _ = writer.Write(data)                                    // a buffer accepts everything
	_ = writer.Close()
	return out.Bytes()
}
