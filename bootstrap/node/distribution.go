// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// distribution is what one operating system does differently.
type distribution struct {
	// format is the language its images understand.
	format bootstrapv1.Format

	// kubelet is where its images have the kubelet.
	kubelet string

	// resolvConf is the resolver configuration for pods; empty is the kubelet's default.
	resolvConf string

	// readOnly are the folders in which nothing can be written.
	readOnly []string

	// setup are shell commands that prepare the host.
	setup []string

	// modules are shell commands that install the kernel modules that its images may lack; empty is none.
	modules string

	// packages are the shell functions upgrade_packages and install_packages; empty is an operating system without packages.
	packages string

	// tools is a shell command that installs what its images may lack; empty is none.
	tools string

	// rebootPackage are shell commands that write the package for which an upgraded host must be rebooted, or nothing.
	rebootPackage string

	// networkd is true where its images configure the network with systemd-networkd, by that program's own defaults.
	networkd bool

	// containerd is a drop-in for the unit of the image; empty is none.
	containerd string

	// metadata is a file of environment variables about the instance, for formats without jinja; empty is none.
	metadata string

	// trustFile is where additional certificate authorities belong, trustCommand adds them to the host's bundle: before its tools
	// are installed.
	trustFile, trustCommand string

	// packageProxy is a shell command that has packages installed through a proxy.
	packageProxy func(bootstrapv1.Proxy) string

	// extra adds what only this operating system has; nil is nothing.
	extra func(n *Node, in Input) error

	// time describes the time servers.
	time func(servers []string) timeServers
}

func distributionOf(spec *bootstrapv1.BootstrapConfigSpec) (distribution, error) {
	var os distribution
	switch spec.OperatingSystem {
	case bootstrapv1.Ubuntu:
		os = ubuntu()
	case bootstrapv1.Debian:
		os = debian()
	case bootstrapv1.Flatcar:
		os = flatcar()
	case bootstrapv1.RHEL:
		os = rhel()
	case bootstrapv1.Rocky:
		os = rocky()
	case bootstrapv1.AmazonLinux:
		os = amazonLinux()
	default:
		return os, invalid("spec.operatingSystem", "%q is not supported: set one of %s", spec.OperatingSystem, supported())
	}
	if spec.Format != "" && spec.Format != os.format {
		return os, invalid("spec.format", "%s has no images for %s: leave the field empty or set it to %s", spec.OperatingSystem, spec.Format, os.format)
	}
	if (len(spec.Packages) > 0 || spec.PackageUpgrade == bootstrapv1.PackageUpgradeOnFirstBoot) && os.packages == "" {
		return os, invalid("spec.packages", "%s has no packages: use spec.binaries", spec.OperatingSystem)
	}
	return os, nil
}

// supported are the operating systems, for messages.
func supported() string {
	var names []string
	for _, os := range []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Debian, bootstrapv1.Flatcar, bootstrapv1.RHEL, bootstrapv1.Rocky, bootstrapv1.AmazonLinux} {
		names = append(names, string(os))
	}
	return strings.Join(names, ", ")
}

// FormatOf is the language that the bootstrap data for a spec is written in.
func FormatOf(spec *bootstrapv1.BootstrapConfigSpec) (bootstrapv1.Format, error) {
	os, err := distributionOf(spec)
	return os.format, err
}

func addOwn(n *Node, os distribution, in Input) error {
	if os.extra == nil {
		return nil
	}
	return os.extra(n, in)
}
