// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// debianResolvConf leads to the resolver configuration without a stub, which pods cannot reach.
const debianResolvConf = "/etc/kubernetes/resolv.conf"

// debian is Debian 12 and 13.
func debian() distribution {
	os := ubuntu()
	os.resolvConf = debianResolvConf
	os.setup = []string{
		// Images differ: those with systemd-resolved have its stub in /etc/resolv.conf, the others have no other file.
		"mkdir -p /etc/kubernetes",
		"if [ -e /run/systemd/resolve/resolv.conf ]; then ln -sfn /run/systemd/resolve/resolv.conf " + debianResolvConf + "; else ln -sfn /etc/resolv.conf " + debianResolvConf + "; fi",
		// Not every image has curl.
		"if ! command -v curl >/dev/null; then apt-get --quiet update; DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes install curl ca-certificates; fi",
	}
	return os
}
