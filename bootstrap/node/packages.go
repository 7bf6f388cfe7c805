// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path"
	"slices"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// retryFunction repeats a command for 30 minutes, with pauses of 10 to 80 seconds: a mirror may be down, and the unattended update
// that images start at boot locks apt.
const retryFunction = `retry() { # what it is, command
  local wait=10 end=$(($(now) + 1800))
  until "${@:2}"; do
    if [ "$(now)" -ge "$end" ]; then echo "bootstrap: $1 did not succeed within 30 minutes" >&2; return 1; fi
    report Retrying OperatingSystem
    sleep $wait
    wait=$((wait < 80 ? wait * 2 : wait))
  done
}`

// aptFunctions leave packages alone that are installed, for which no network is needed. Configuration that was written before its
// package was installed stays. By default apt-get update ends without an error where a mirror does not answer, and an upgrade
// then does nothing. What a reboot has interrupted is completed first: until then apt-get refuses to install anything.
const aptFunctions = `apt() { DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --option Dpkg::Options::=--force-confold "$@"; }
complete_packages() { DEBIAN_FRONTEND=noninteractive dpkg --force-confold --configure -a || apt --fix-broken install; }
upgrade_packages() { apt --option APT::Update::Error-Mode=any update && complete_packages && apt dist-upgrade; }
install_packages() { # names, with =version or without
  local name
  for name; do
    case $(dpkg-query --show --showformat '${db:Status-Status}=${Version}=' "${name%%=*}" 2>/dev/null) in
      "installed${name#"${name%%=*}"}="*) ;;
      *) apt update && complete_packages && apt install "$@"; return ;;
    esac
  done
}`

// dnfFunctions do so for dnf.
const dnfFunctions = `upgrade_packages() { dnf --quiet --assumeyes upgrade; }
install_packages() { # names, with a version or without, or of what packages provide
  local name
  for name; do
    rpm --query "$name" >/dev/null || rpm --query --whatprovides "$name" >/dev/null || { dnf --quiet --assumeyes install "$@"; return; }
  done
}`

// addPackages has the script begin with what needs a mirror, and with the files whose owners a package may create, before and after
// it. cloud-init could do most of that before the script, but only at one boot, and it would go on after a failure. Where the boot
// ends in between, by an upgrade or not, the script is run again at the next one.
func addPackages(n *Node, os distribution, in Input) error {
	var trust []string
	if in.Spec.TrustedCAs != "" {
		trust = append(trust, os.trustCommand)
	}
	install, err := installation(n, os, in)
	if err != nil {
		return err
	}
	first, files := placements(n, os, len(install) > 0)
	if len(install) > 0 {
		trust = append(trust, runAgain)
		files = append(files, "mkdir -p "+path.Dir(ranFile), "touch "+ranFile)
	}
	n.Setup = slices.Concat(trust, first, install, files, n.Setup)
	return nil
}

// installation registers the host, and upgrades and installs packages.
func installation(n *Node, os distribution, in Input) ([]string, error) {
	packages, upgrades := in.Spec.Packages, in.Spec.PackageUpgrade == bootstrapv1.PackageUpgradeOnFirstBoot
	var commands []string
	if len(packages) > 0 || upgrades || n.subscription != nil {
		access, err := repositoryAccess(n, os, in.Spec.Proxy)
		if err != nil {
			return nil, err
		}
		commands = append(commands, access...)
	}
	if len(packages) > 0 || upgrades || os.tools != "" {
		commands = append(commands, os.packages)
	}
	if os.tools != "" {
		commands = append(commands, os.tools)
	}
	if upgrades {
		commands = append(commands, strings.Replace(upgradeOnce, "REASON", os.rebootPackage, 1))
	}
	if len(packages) > 0 {
		command := "retry 'the installation of packages' install_packages"
		for _, name := range packages {
			command += " " + quote.Shell(name)
		}
		commands = append(commands, command)
	}
	if os.modules != "" {
		commands = append(commands, os.modules)
	}
	if len(commands) > 0 {
		commands = append([]string{retryFunction}, commands...)
	}
	return commands, nil
}

// repositoryAccess registers the host, and has what downloads packages use the proxy.
func repositoryAccess(n *Node, os distribution, proxy bootstrapv1.Proxy) ([]string, error) {
	var commands []string
	if proxy.HTTP != "" || proxy.HTTPS != "" {
		commands = append(commands, os.packageProxy(proxy))
	}
	if n.subscription == nil {
		return commands, nil
	}
	registration, err := n.subscription.commands(proxy)
	return append(commands, registration...), err
}
