// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"compress/gzip"
)

// FitUserData returns user data as a cloud accepts it that takes a number of bytes. Data that is too long is compressed for
// cloud-init, which decompresses gzip by itself; Ignition does not. It fails with InvalidConfigurationError where that is not
// enough.
func FitUserData(data []byte, format string, limit int, cloud string) ([]byte, error) {
	sent := data
	if len(data) > limit && format != "ignition" {
		sent = Compress(data)
	}
	if len(sent) > limit {
		return nil, NeverValid("bootstrap data",
			"%d bytes (%d to send) are more than the %d bytes of user data that %s accepts: move files to an image or to a download", len(data), len(sent), limit, cloud)
	}
	return sent, nil
}

// Compress compresses bootstrap data with gzip. It has no time stamp, because a repeated request must be identical.
func Compress(data []byte) []byte {
	var out bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // fails for an unknown level only
	_, _ = writer.Write(data)                                    // a buffer accepts everything
	_ = writer.Close()
	return out.Bytes()
}
