// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// debianResolvConf leads to the resolver configuration without a stub, which pods cannot reach.
const debianResolvConf = "/etc/kubernetes/resolv.conf"

// debianAptTrust has apt trust the operator's authorities on an image without ca-certificates, until that is installed.
const debianAptTrust = "/etc/apt/apt.conf.d/90drover-trust"

// debianTools installs curl, and the certificates of authorities, which not every image has.
const debianTools = `if ! command -v curl >/dev/null || ! command -v update-ca-certificates >/dev/null; then
  retry 'the installation of curl' install_packages curl ca-certificates
  update-ca-certificates
  rm -f ` + debianAptTrust + `
fi`

// debian is Debian 12 and 13.
func debian() distribution {
	os := ubuntu()
	os.resolvConf = debianResolvConf
	os.trustCommand = `if command -v update-ca-certificates >/dev/null; then
  update-ca-certificates
  rm -f ` + debianAptTrust + `
else
  printf 'Acquire::https::CAInfo "%s";\n' ` + os.trustFile + ` >` + debianAptTrust + `
fi`
	os.tools = debianTools
	os.setup = []string{
		// Images differ: those with systemd-resolved have its stub in /etc/resolv.conf, the others have no other file.
		"mkdir -p /etc/kubernetes",
		"if [ -e /run/systemd/resolve/resolv.conf ]; then ln -sfn /run/systemd/resolve/resolv.conf " + debianResolvConf + "; else ln -sfn /etc/resolv.conf " + debianResolvConf + "; fi",
	}
	return os
}
