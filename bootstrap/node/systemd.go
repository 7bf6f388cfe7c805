// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strconv"
	"strings"

	"drover.io/bootstrap/node/quote"
)

// argument is one argument of a command line in a unit.
type argument struct {
	text string
	// templated arguments hold expressions for cloud-init or variables for systemd to fill in, and were checked to be one
	// word besides.
	templated bool
}

// systemdCommand writes a command line for ExecStart=, an argument a line.
func systemdCommand(program string, args []argument) (string, error) {
	words := []string{program}
	for _, arg := range args {
		word := arg.text
		if !arg.templated {
			var err error
			if word, err = quote.Systemd(arg.text); err != nil {
				return "", err
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " \\\n  "), nil
}

func itoa(i int) string { return strconv.Itoa(i) }
