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

// upgraded is an image whose packages were just upgraded, and that has booted at the second 1000. An upgrade restarts cloud-init, which
// notes that it has run the script, and runs it again. What sleeps is ended by the reboot.
const upgraded = `
mkdir -p bin opt/bin etc/sysctl.d run var/lib/cloud/instance/sem
touch var/lib/cloud/instance/sem/config_scripts_user
printf 'cpu 1 2\nbtime 1000\n' >stat
tool() { printf '#!/bin/bash\n%s\n' "$2" >bin/$1; chmod +x bin/$1; }
tool systemctl 'echo "systemctl $*" >>log'
tool sleep 'exit 143'
for name in sysctl modprobe swapoff setenforce dpkg update-ca-certificates; do tool $name true; done
for name in apt-get dnf; do tool $name 'touch var/lib/cloud/instance/sem/config_scripts_user'; done
`

// TestHostRebootsOnceAfterAnUpgrade: dnf leaves no file by which cloud-init would know that a reboot is needed, and cloud-init
// does not reboot after an upgrade that is not its own.
func TestHostRebootsOnceAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	upgrades := func(s *bootstrapv1.BootstrapConfigSpec) { s.PackageUpgrade = bootstrapv1.PackageUpgradeOnFirstBoot }
	byDnf, byApt := []bootstrapv1.OperatingSystem{bootstrapv1.RHEL, bootstrapv1.Rocky, bootstrapv1.AmazonLinux}, []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Debian}
	rpm := func(packages string) string { return "tool rpm \"printf '" + packages + "\\n'\"\n" }
	const demanded = "touch run/reboot-required\n"
	for name, c := range map[string]struct {
		systems []bootstrapv1.OperatingSystem
		change  func(*bootstrapv1.BootstrapConfigSpec)
		image   string
		reboots bool
	}{
		"it reboots for a kernel":                     {byDnf, upgrades, rpm(`900 bash\n1100 jq\n1100 kernel-core\n1100 glibc`), true},
		"it reboots for the kernel of Amazon Linux":   {byDnf, upgrades, rpm(`1100 kernel6.12`), true},
		"it does not for what was in the image":       {byDnf, upgrades, rpm(`900 kernel-core\n1000 glibc`), false},
		"it does not for a program":                   {byDnf, upgrades, rpm(`1100 jq\n1100 dbus-x11`), false},
		"it does not where packages are not upgraded": {byDnf, func(*bootstrapv1.BootstrapConfigSpec) {}, rpm(`1100 kernel-core`), false},
		"it reboots where the package demands it":     {byApt, upgrades, demanded, true},
		"it does not where no package demands it":     {byApt, upgrades, "", false},
		"it does not where apt upgraded nothing":      {byApt, func(*bootstrapv1.BootstrapConfigSpec) {}, demanded, false},
	} {
		for _, system := range c.systems {
			t.Run(name+", "+string(system), func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				in := minimal(system)
				c.change(in.Spec)
				n := describe(t, in)
				n.kubelet, n.Services = "", nil
				script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "/var/lib/", root+"/var/lib/", "/proc/stat", root+"/stat").Replace(string(n.script()))
				boot := func(image string) (bool, string) {
					command := exec.CommandContext(t.Context(), "bash", "-c", image+script)
					command.Dir, command.Env = root, []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}
					out, err := command.CombinedOutput()
					return err == nil, string(out)
				}
				done, out := boot(upgraded + c.image)
				log, err := os.ReadFile(filepath.Join(root, "log"))
				must(t, err)
				if rebooted := strings.HasPrefix(string(log), "systemctl reboot\n"); rebooted != c.reboots || done == c.reboots {
					t.Fatalf("rebooted %t, done %t, want %t: %s", rebooted, done, c.reboots, out)
				}
				if strings.Contains(out, "state=Failed") {
					t.Errorf("the reboot is reported as a failure: %s", out)
				}
				if _, err := os.Stat(filepath.Join(root, ranFile)); (err != nil) != c.reboots {
					t.Errorf("cloud-init does not run the script at the next boot, or does without a reboot: %v", err)
				}
				if done, out := boot(""); !done || strings.Contains(out, "reboots") {
					t.Errorf("the next boot: %s", out)
				}
			})
		}
	}
}

// TestScriptDoesNotRunTwiceAtATime: an upgrade may restart cloud-init, which then runs the script again, as after a reboot. The run that
// ends at once does not keep the script from running after a reboot.
func TestScriptDoesNotRunTwiceAtATime(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := describe(t, minimal(bootstrapv1.Rocky))
	n.kubelet, n.Services = "", nil
	script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "/var/lib/", root+"/var/lib/").Replace(string(n.script()))
	for name, before := range map[string]string{"alone": "", "twice": "exec 8>run/drover-bootstrap.lock; flock 8\n"} {
		command := exec.CommandContext(t.Context(), "bash", "-c", upgraded+before+`bash -c "$SCRIPT"`)
		command.Dir, command.Env = root, []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "SCRIPT=" + script}
		out, err := command.CombinedOutput()
		if ends := strings.Contains(string(out), "state=Succeeded"); err != nil || ends != (name == "alone") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, err := os.Stat(filepath.Join(root, ranFile)); (err == nil) != (name == "alone") {
			t.Errorf("%s: cloud-init runs the script at the next boot, or does not after a run that ended at once: %v", name, err)
		}
	}
}
