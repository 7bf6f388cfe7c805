// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import "drover.io/test/process"

// MetricsAddresses are addresses of the metrics of all managers, by the names of their binaries, and Options.Args with which
// they serve them there.
func MetricsAddresses() (addresses map[string]string, args map[string][]string, err error) {
	addresses, args = map[string]string{}, map[string][]string{}
	for _, name := range []string{"machine-controller", "bootstrap", "infra-sim"} {
		if addresses[name], err = process.FreeAddress(); err != nil {
			return nil, nil, err
		}
		args[name] = []string{"--metrics-bind-address=" + addresses[name]}
	}
	return addresses, args, nil
}
