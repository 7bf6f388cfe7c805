// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// ubuntu is Ubuntu 22.04, 24.04 and 26.04.
func ubuntu() distribution {
	return distribution{
		format:        bootstrapv1.CloudConfig,
		kubelet:       "/usr/bin/kubelet",
		resolvConf:    "/run/systemd/resolve/resolv.conf",
		networkd:      true,
		packages:      aptFunctions,
		rebootPackage: aptRebootPackage,
		packageProxy:  aptProxy,
		time:          chronyOrTimesyncd,
		trustFile:     "/usr/local/share/ca-certificates/drover.crt",
		setup: []string{
			// ufw drops forwarded packets, which is what pod traffic is.
			"if command -v ufw >/dev/null; then ufw disable; fi",
		},
		trustCommand: "update-ca-certificates",
		extra:        addEC2Name,
	}
}
