// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import bootstrapv1 "drover.io/api/bootstrap/v1alpha1"

// rhel is Red Hat Enterprise Linux 9 and 10.
func rhel() distribution {
	os := enterprise()
	os.modules = extraModules
	os.extra = subscribe
	return os
}

// enterprise is what RHEL, Rocky Linux and Amazon Linux have in common.
func enterprise() distribution {
	return distribution{
		format:        bootstrapv1.CloudConfig,
		kubelet:       "/usr/bin/kubelet",
		packages:      dnfFunctions,
		rebootPackage: dnfRebootPackage,
		packageProxy:  dnfProxy,
		time:          chronyd,
		setup: []string{
			// The distribution's policies have no rules for a kubelet and its containers.
			"if [ -e /etc/selinux/config ]; then setenforce 0 || true; sed -i 's/^SELINUX=enforcing$/SELINUX=permissive/' /etc/selinux/config; fi",
			// firewalld would drop traffic between pods and to node ports.
			"if systemctl cat firewalld.service >/dev/null 2>&1; then systemctl disable --quiet --now firewalld.service; fi",
			// Images for clouds have a service that gives each address of an instance a routing table of its own, and takes
			// away the routes of a CNI plugin.
			"for unit in nm-cloud-setup.timer nm-cloud-setup.service; do if systemctl cat $unit >/dev/null 2>&1; then systemctl disable --quiet --now $unit; fi; done",
		},
		trustFile:    "/etc/pki/ca-trust/source/anchors/drover.pem",
		trustCommand: "update-ca-trust extract",
	}
}
