// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider

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

// beDiscreet bounds the flags of the log.
func beDiscreet(flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) { f.Value = discreet{f.Value} })
}
