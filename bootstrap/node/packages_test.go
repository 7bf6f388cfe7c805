// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestInstalledPackagesNeedNoNetwork: an image may have them all, on a host without a mirror.
func TestInstalledPackagesNeedNoNetwork(t *testing.T) {
	t.Parallel()
	const (
		apt = `apt-get() { local all="$*"; echo "apt-get ${all##*=--force-confold }"; }
dpkg() { echo "dpkg $*"; }
dpkg-query() { case "${*: -1}" in conntrack) printf installed=1:1.4.7-1= ;; libc6) printf installed=2=installed=2= ;; half) printf half-configured=1= ;; *) return 1 ;; esac; }
`
		dnf = `dnf() { echo "dnf $*"; }
rpm() { case "$*" in '--query conntrack-tools'* | '--query kernel-core-6.12' | '--query --whatprovides vim') ;; *) return 1 ;; esac; }
`
	)
	const complete = "dpkg --force-confold --configure -a\n"
	for name, c := range map[string]struct {
		functions, packages, want string
	}{
		"a package that is installed":                 {apt + aptFunctions, "conntrack libc6", ""},
		"a version that is installed":                 {apt + aptFunctions, "conntrack=1:1.4.7-1", ""},
		"another version":                             {apt + aptFunctions, "libc6 conntrack=1:1.4.7", "apt-get update\n" + complete + "apt-get install libc6 conntrack=1:1.4.7\n"},
		"a package that is not configured":            {apt + aptFunctions, "half", "apt-get update\n" + complete + "apt-get install half\n"},
		"a package that is not installed":             {apt + aptFunctions, "conntrack nfs-common", "apt-get update\n" + complete + "apt-get install conntrack nfs-common\n"},
		"a package that is installed, for rpm":        {dnfFunctions + "\n" + dnf, "conntrack-tools kernel-core-6.12", ""},
		"what an installed package provides, for rpm": {dnfFunctions + "\n" + dnf, "vim conntrack-tools", ""},
		"a package that is not installed, for rpm":    {dnfFunctions + "\n" + dnf, "vim nfs-utils", "dnf --quiet --assumeyes install vim nfs-utils\n"},
		"a package that is not the last one, for rpm": {dnfFunctions + "\n" + dnf, "nfs-utils vim", "dnf --quiet --assumeyes install nfs-utils vim\n"},
		"a package that is not the last one, for apt": {apt + aptFunctions, "nfs-common conntrack", "apt-get update\n" + complete + "apt-get install nfs-common conntrack\n"},
		"all packages, where a mirror must answer":    {apt + aptFunctions + "\nupgrade_packages", "", "apt-get --option APT::Update::Error-Mode=any update\n" + complete + "apt-get dist-upgrade\n"},
		"packages that dpkg cannot complete alone":    {apt + aptFunctions + "\ndpkg() { false; }\n", "half", "apt-get update\napt-get --fix-broken install\napt-get install half\n"},
		"all packages, for dnf":                       {dnfFunctions + "\n" + dnf + "upgrade_packages", "", "dnf --quiet --assumeyes upgrade\n"},
	} {
		out, err := bash(t, c.functions+"\n"+"install_packages "+c.packages)
		if err != nil || out != c.want {
			t.Errorf("%s: %v, %q, want %q", name, err, out, c.want)
		}
	}
}

// TestFlatcarHasNothingOfPackages: Ignition itself fails where a file has an owner that does not exist.
func TestFlatcarHasNothingOfPackages(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Flatcar)
	in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: new("a"), Owner: "core"}}
	if script := string(describe(t, in).script()); strings.Contains(script, "retry") || strings.Contains(script, "chown") {
		t.Errorf("the script is %s", script)
	}
}
