// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// retryFunction repeats a command until the script has run for 30 minutes, with pauses of 10 to 80 seconds: a mirror may be down,
// and the unattended update that images start at boot locks apt.
const retryFunction = `retry() { # what it is, command
  local wait=10
  until "${@:2}"; do
    if [ $SECONDS -ge 1800 ]; then echo "bootstrap: $1 did not succeed within 30 minutes" >&2; return 1; fi
    report Retrying OperatingSystem
    sleep $wait
    wait=$((wait < 80 ? wait * 2 : wait))
  done
}`

// aptFunctions leave packages alone that are installed, for which no network is needed. Configuration that was written before its
// package was installed stays. By default apt-get update ends without an error where a mirror does not answer, and an upgrade
// then does nothing.
const aptFunctions = `apt() { DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --option Dpkg::Options::=--force-confold "$@"; }
upgrade_packages() { apt --option APT::Update::Error-Mode=any update && apt dist-upgrade; }
install_packages() { # names, with =version or without
  local name
  for name; do
    case $(dpkg-query --show --showformat '${db:Status-Status}=${Version}=' "${name%%=*}" 2>/dev/null) in
      "installed${name#"${name%%=*}"}="*) ;;
      *) apt update && apt install "$@"; return ;;
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

// addPackages registers the host, and upgrades and installs packages, where cloud-init has not: it tries once, and goes on after
// a failure.
func addPackages(n *Node, os distribution, in Input) error {
	var commands []string
	if in.Spec.TrustedCAs != "" && os.trustEarly != "" {
		commands = append(commands, os.trustEarly)
	}
	if n.Subscription != nil {
		commands = append(commands, "register() { "+n.Subscription.register()+"; }", "retry 'the registration of the host' register")
	}
	if len(n.Packages) > 0 || n.Upgrade || os.tools != "" {
		commands = append(commands, os.packages)
	}
	if os.tools != "" {
		commands = append(commands, os.tools)
	}
	if n.Upgrade {
		commands = append(commands, strings.Replace(upgradeOnce, "REASON", os.rebootPackage, 1))
	}
	if len(n.Packages) > 0 {
		command := "retry 'the installation of packages' install_packages"
		for _, name := range n.Packages {
			command += " " + quote.Shell(name)
		}
		commands = append(commands, command)
	}
	if len(commands) > 0 {
		n.Setup = slices.Concat([]string{retryFunction}, commands, n.Setup)
	}
	return nil
}

// addOwners fails where cloud-init has not written a file, or not for its owner: it ends with the first one of these files whose
// owner does not exist.
func addOwners(n *Node, os distribution, _ Input) error {
	if os.format != bootstrapv1.CloudConfig {
		return nil
	}
	for _, f := range n.Files {
		if !f.Deferred() {
			continue
		}
		message := "bootstrap: spec.files: " + f.Path + " is not there, or " + f.Owner + " does not exist"
		n.Setup = append(n.Setup, "if ! chown "+quote.Shell(f.Owner)+" "+quote.Shell(f.Path)+"; then echo "+quote.Shell(message)+" >&2; exit 1; fi")
	}
	return nil
}
