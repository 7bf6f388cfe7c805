// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
)

func TestLogsNoBodies(t *testing.T) {
	t.Parallel()
	for arg, accepted := range map[string]bool{
		"-v=2": true, "-v=7": true, "--vmodule=controller=4,a*=7": true,
		"-v=8": false, "--v=10": false, "--vmodule=controller=4,request=8": false, "-v=many": false,
	} {
		_, err := parseOptions([]string{arg})
		if (err == nil) != accepted {
			t.Errorf("%s: err = %v, want accepted = %t", arg, err, accepted)
		}
	}
}
