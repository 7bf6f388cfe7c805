// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/base64"
	"fmt"

	"drover.io/infra-providers/driver"
)

// MaxUserData is the maximum size of user data in EC2, in bytes before the base64 encoding.
const MaxUserData = 16 << 10

// encodeUserData encodes user data in base64. Data that is too long is compressed for cloud-init, which decompresses
// gzip by itself. Ignition does not.
func encodeUserData(data []byte, format string) (*string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	compressed := data
	if len(data) > MaxUserData && format != "ignition" {
		compressed = driver.Compress(data)
	}
	if len(compressed) > MaxUserData {
		return nil, &driver.InvalidConfigurationError{
			Field: "bootstrap data",
			Err:   fmt.Errorf("%d bytes (%d to send) are more than the %d bytes of user data that EC2 accepts: move files to an image or to a download", len(data), len(compressed), MaxUserData),
		}
	}
	encoded := base64.StdEncoding.EncodeToString(compressed)
	return &encoded, nil
}
