// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/base64"

	"drover.io/infra-providers/driver"
)

// MaxUserData is the maximum size of user data in EC2, in bytes before the base64 encoding.
const MaxUserData = 16 << 10

// encodeUserData encodes user data in base64.
func encodeUserData(data []byte, format string) (*string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	sent, err := driver.FitUserData(data, format, MaxUserData, "EC2")
	if err != nil {
		return nil, err
	}
	encoded := base64.StdEncoding.EncodeToString(sent)
	return &encoded, nil
}
