// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestNetworkdLeavesTheRoutesOfPodsAlone: systemd-networkd that is restarted by an update of systemd takes away the routes and
// rules that a CNI plugin has made. Flatcar's is configured so, and RHEL and Rocky Linux have none.
func TestNetworkdLeavesTheRoutesOfPodsAlone(t *testing.T) {
	t.Parallel()
	configured := map[bootstrapv1.OperatingSystem]bool{bootstrapv1.Ubuntu: true, bootstrapv1.Debian: true, bootstrapv1.AmazonLinux: true}
	for _, system := range systems {
		n := describe(t, minimal(system))
		want := ""
		if configured[system] {
			want = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
		}
		got := ""
		for _, f := range n.Files {
			if f.Path == "/etc/systemd/networkd.conf.d/50-drover.conf" {
				got = string(f.Content)
			}
		}
		if got != want {
			t.Errorf("%s: systemd-networkd has %q, want %q", system, got, want)
		}
		if !configured[system] {
			continue
		}
		var commands []string // those that are about it: others change the host
		for _, command := range n.Setup {
			if strings.Contains(command, "systemd-networkd") {
				commands = append(commands, command)
			}
		}
		for active, restarted := range map[string]string{"true": "restart systemd-networkd.service\n", "false": ""} {
			out, err := bash(t, `systemctl() { case "$1" in --quiet) `+active+` ;; restart) echo "$@" ;; esac; }`+"\n"+strings.Join(commands, "\n"))
			if err != nil || out != restarted {
				t.Errorf("%s, where it is active (%s): %v, restarted %q, want %q", system, active, err, out, restarted)
			}
		}
	}
}

// TestAmazonLinuxLeavesTheAddressesOfPodsAlone: amazon-ec2-net-utils gives them to the host, at boot, when an interface is
// attached and every minute.
func TestAmazonLinuxLeavesTheAddressesOfPodsAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	alias := root + "/run/systemd/network/70-ens5.network.d/ec2net_alias.conf"
	must(t, os.MkdirAll(filepath.Dir(alias), 0o755))
	must(t, os.WriteFile(alias, []byte("[Address]\nAddress=10.0.0.5/32\n"), 0o600))
	setup := strings.NewReplacer("/etc/", root+"/etc/", "/run/", root+"/run/").Replace(strings.Join(describe(t, minimal(bootstrapv1.AmazonLinux)).Setup, "\n"))
	out, err := bash(t, `systemctl() { if [ "$1" = stop ]; then echo "$@"; return 1; fi; } # as where there is none`+"\n"+setup)
	if err != nil || out != "stop refresh-policy-routes@* policy-routes@*\n" {
		t.Errorf("%v: %q", err, out)
	}
	if to, err := os.Readlink(root + "/etc/udev/rules.d/99-vpc-policy-routes.rules"); err != nil || to != "/dev/null" {
		t.Errorf("the next interface starts it: %q, %v", to, err)
	}
	if _, err := os.Stat(alias); !os.IsNotExist(err) {
		t.Errorf("the host keeps the addresses of pods: %v", err)
	}
}
