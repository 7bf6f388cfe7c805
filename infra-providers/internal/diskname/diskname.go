// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package diskname derives the names of a machine's disks, for clouds in which a disk has labels that others may copy and a name of
// at most 63 characters. The boot disk has the name of the machine.
package diskname

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"drover.io/infra-providers/driver"
)

// maxName is the maximum length of a name.
const maxName = 63

// Further is the name of a further disk, by its name in a spec.
func Further(id driver.Identity, name string) string {
	if full := id.Name + "-" + name; len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(id.Name))
	begin := strings.TrimRight(id.Name[:maxName-len(name)-10], "-")
	return fmt.Sprintf("%s-%s-%s", begin, hex.EncodeToString(sum[:4]), name)
}

// Fits reports whether a disk of a machine can have a name: it is that of the boot disk or of a further one, whose name in a spec has
// at most so many characters.
func Fits(id driver.Identity, name string, longest int) bool {
	for at, character := range name {
		if further := name[at+1:]; character == '-' && len(further) <= longest && Further(id, further) == name {
			return true
		}
	}
	return name == id.Name
}
