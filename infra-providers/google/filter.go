// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"fmt"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
)

// uidFilter returns the filter of lists that selects what has the labels of a machine's UID, and may select more.
func uidFilter(id driver.Identity) string { return equal(driver.TagMachineUID, string(id.UID)) }

// ownerFilter returns the filter of lists that selects everything of an owner, or of Drover for an empty one. It may select
// more.
func ownerFilter(owner driver.Owner) string {
	filter := "labels." + label.MachineUID + ":*"
	if owner == (driver.Owner{}) {
		return filter
	}
	filter = "(" + filter + ")" // Compute Engine requires parentheses around each of several expressions
	for tag, value := range (driver.Identity{Owner: owner}).Tags() {
		if tag != driver.TagMachineUID && tag != driver.TagMachine && value != "" {
			filter += " AND (" + equal(tag, value) + ")"
		}
	}
	return filter
}

// equal selects a value by its first label.
func equal(tag, value string) string {
	key, part := label.First(tag, value)
	return fmt.Sprintf("labels.%s=%q", key, part)
}
