// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// policyRoutesOff turns amazon-ec2-net-utils off, as images of EKS do. It gives the host every address of an interface, also
// those that a CNI plugin has given to pods, which then receive nothing.
var policyRoutesOff = []string{
	"mkdir -p /etc/udev/rules.d",
	"ln -sfn /dev/null /etc/udev/rules.d/99-vpc-policy-routes.rules",
	"systemctl stop 'refresh-policy-routes@*' 'policy-routes@*' || true",
	"rm -f /run/systemd/network/*.network.d/ec2net_alias.conf",
}

// amazonLinux is Amazon Linux 2023. It has SELinux and chrony as RHEL has them, and systemd-networkd and systemd-resolved as
// Ubuntu has them.
func amazonLinux() distribution {
	os := enterprise()
	os.networkd = true
	os.setup = append(os.setup, policyRoutesOff...)
	os.resolvConf = "/run/systemd/resolve/resolv.conf"
	return os
}
