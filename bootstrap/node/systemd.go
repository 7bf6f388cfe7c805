// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strconv"
	"strings"
)

// systemdArgument writes one argument of a command line in a unit so that systemd gives the program exactly
// this argument. A dollar sign stays: an environment variable in an argument is a feature for the operator.
func systemdArgument(arg string) string {
	if hasJinja(arg) {
		return arg // checked to be one word after rendering
	}
	arg = strings.ReplaceAll(arg, "%", "%%")
	if !strings.ContainsAny(arg, " \t\"'\\;") {
		return arg
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}

func itoa(i int) string { return strconv.Itoa(i) }
