// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// enterprise10 is an image of RHEL 10 or Rocky Linux 10 with two kernels, the older of which runs.
const enterprise10 = `
mkdir -p bin opt/bin etc/sysctl.d run
tool() { printf '#!/bin/bash\n%s\n' "$2" >bin/$1; chmod +x bin/$1; }
tool modprobe 'case "$*" in *br_netfilter*) [ -e has-modules ] || { echo "modprobe: FATAL: Module br_netfilter not found" >&2; exit 1; } ;; esac'
tool rpm 'for kernel in 6.12.0-124.el10 6.12.0-130.el10; do format=${4//%{VERSION\}/${kernel%-*}}; format=${format//%{RELEASE\}/${kernel#*-}}; printf "${format//%{ARCH\}/x86_64}"; done'
tool dnf 'echo "dnf $*" >>log; [ ! -e down ] || { rm down; exit 1; }; [ -e repository ] && touch has-modules; true'
tool sleep true
for name in systemctl sysctl swapoff setenforce update-ca-trust; do tool $name 'echo "${0##*/}" >>log'; done
`

func TestKernelModulesThatAnImageLacksAreInstalled(t *testing.T) {
	t.Parallel()
	const install = "--quiet --assumeyes --setopt=strict=0 install kernel-modules-extra-6.12.0-124.el10.x86_64 kernel-modules-extra-6.12.0-130.el10.x86_64"
	for _, system := range []bootstrapv1.OperatingSystem{bootstrapv1.RHEL, bootstrapv1.Rocky} {
		for name, c := range map[string]struct {
			image, installed string
			successful       bool
		}{
			"an image that lacks them":                      {"touch repository", install, true},
			"an image that lacks them, and no repository":   {"", install, false},
			"a mirror that does not answer at first":        {"touch repository down", install, true},
			"an image that has them, as those of release 9": {"touch has-modules", "", true},
		} {
			t.Run(string(system)+", "+name, func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				in := minimal(system)
				authority, err := os.ReadFile("../internal/render/testdata/ca.crt")
				must(t, err)
				in.Spec.TrustedCAs = string(authority)
				n := describe(t, in)
				n.kubelet, n.Services = "", nil
				script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "/var/lib/", root+"/var/lib/").Replace(string(n.script()))
				command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+enterprise10+c.image+"\n"+script)
				command.Dir, command.Env = root, []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}
				out, err := command.CombinedOutput()
				if (err == nil) != c.successful {
					t.Errorf("%v: %s", err, out)
				}
				log, err := os.ReadFile(filepath.Join(root, "log"))
				must(t, err)
				before, after, installed := strings.Cut(string(log), "dnf ")
				if got, _, _ := strings.Cut(after, "\n"); got != c.installed {
					t.Errorf("installed %q, want %q", got, c.installed)
				}
				if installed && !strings.Contains(before, "update-ca-trust") {
					t.Errorf("it downloads before it trusts the operator's authorities: %s", log)
				}
			})
		}
	}
}
