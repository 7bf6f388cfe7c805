// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package logflags keeps Secrets out of the logs of managers, whatever level somebody asks for. It is the one
// rule that they all share beside the kinds; it owns no logger.
package logflags

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// mostVerbose is the highest level at which client-go does not write the bodies of requests, and with them Secrets,
// into the log.
const mostVerbose = 7

// discreet is -v or -vmodule, bounded by mostVerbose.
type discreet struct{ flag.Value }

// Set implements flag.Value.
func (d discreet) Set(value string) error {
	for setting := range strings.SplitSeq(value, ",") {
		level := setting[strings.LastIndex(setting, "=")+1:]
		if n, err := strconv.Atoi(strings.TrimSpace(level)); err == nil && n > mostVerbose {
			return fmt.Errorf("at most %d: at %d the log would have the bodies of requests, and with them Secrets", mostVerbose, n)
		}
	}
	return d.Value.Set(value)
}

// Bound makes every flag of a set that has the flags of a log and no others, -v and -vmodule, refuse levels at
// which the bodies of requests are written.
func Bound(flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) { f.Value = discreet{f.Value} })
}
