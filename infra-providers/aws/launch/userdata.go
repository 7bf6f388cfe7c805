// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"

	"drover.io/infra-providers/driver"
)

// MaxUserData is the most that EC2 takes, in bytes before the base64 encoding.
const MaxUserData = 16 << 10

// encode makes user data fit. Cloud-init unpacks gzip by itself, so what is too long is packed; Ignition
// gets its configuration as it is.
func encode(data []byte, format string) (*string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	packed := data
	if len(data) > MaxUserData && format != "ignition" {
		packed = pack(data)
	}
	if len(packed) > MaxUserData {
		return nil, &driver.InvalidConfigurationError{
			Field: "bootstrap data",
			Err:   fmt.Errorf("%d bytes (%d to send) are more than the %d bytes of user data that EC2 takes: move files to an image or to a download", len(data), len(packed), MaxUserData),
		}
	}
	encoded := base64.StdEncoding.EncodeToString(packed)
	return &encoded, nil
}

// pack gives the same bytes each time, because the request may have to be repeated word for word.
func pack(data []byte) []byte {
	buffer := &bytes.Buffer{}
	writer, _ := gzip.NewWriterLevel(buffer, gzip.BestCompression) // fails for unknown levels only
	_, _ = writer.Write(data)                                      // a buffer takes everything
	_ = writer.Close()
	return buffer.Bytes()
}
