// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"encoding/base64"
	"unicode/utf8"

	"drover.io/infra-providers/driver"
)

// MaxUserData is the maximum size of the value of a metadata item, in bytes.
const MaxUserData = 256 << 10

// The metadata items of the bootstrap data, which cloud-init and Ignition read.
const (
	userDataKey     = "user-data"
	userDataEncoded = "user-data-encoding"
)

// addUserData adds the bootstrap data to metadata, whose values are text of a limited size. Cloud-init decodes base64, if the
// metadata announce it, and gzip; Ignition decodes neither.
func addUserData(items map[string]string, data []byte, format string) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) <= MaxUserData && utf8.Valid(data) {
		items[userDataKey] = string(data)
		return nil
	}
	if format == "ignition" {
		return tooLong(len(data), len(data))
	}
	if utf8.Valid(data) {
		data = driver.Compress(data)
	}
	encoded := base64.StdEncoding.EncodeToString(data)
	if len(encoded) > MaxUserData {
		return tooLong(len(data), len(encoded))
	}
	items[userDataKey], items[userDataEncoded] = encoded, "base64"
	return nil
}

func tooLong(size, sent int) error {
	return driver.NeverValid("bootstrap data",
		"%d bytes (%d to send) are not text of at most %d bytes, which Compute Engine accepts: move files to an image or to a download", size, sent, MaxUserData)
}
