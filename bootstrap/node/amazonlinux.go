// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// amazonLinux is Amazon Linux 2023. It has SELinux and chrony as RHEL has them, and systemd-networkd and systemd-resolved as
// Ubuntu has them.
func amazonLinux() distribution {
	os := enterprise()
	os.resolvConf = "/run/systemd/resolve/resolv.conf"
	return os
}
