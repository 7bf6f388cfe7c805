// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

// boot runs the four real stages of cloud-init on user data, in a root directory that is thrown away, and returns what
// they did, by the first word of each line that testdata/stages.sh prints. The environment is for that script.
func boot(t *testing.T, in node.Input, environment ...string) map[string][]string {
	t.Helper()
	return isolate(t, in, cloudInit(t), environment...)
}

// run does so without cloud-init, which takes most of the time: it writes the files of the user data, and runs the script.
func run(t *testing.T, in node.Input, environment ...string) map[string][]string {
	t.Helper()
	return isolate(t, in, "", environment...)
}

func isolate(t *testing.T, in node.Input, folder string, environment ...string) map[string][]string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: a host needs a root directory of its own")
	}
	data, _, err := render.Data(in)
	if err != nil {
		t.Fatal(err)
	}
	described, err := node.Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	var paths strings.Builder
	for _, f := range described.AllFiles() {
		paths.WriteString(f.Path + "\n")
	}
	scratch := t.TempDir()
	userData, list, root := filepath.Join(scratch, "user-data"), filepath.Join(scratch, "paths"), filepath.Join(scratch, "root")
	if folder == "" {
		writeFiles(t, userData, data)
	} else {
		writeFile(t, userData, data, 0o600)
	}
	writeFile(t, list, []byte(paths.String()), 0o600)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	isolated := []string{"--mount", "--uts", "--ipc", "--net", "--pid", "--fork"}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(isolated, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	args := append(isolated, "bash", "testdata/stages.sh", folder, root, userData, list, cloudInitName(in.Spec.OperatingSystem))
	for _, d := range in.Spec.Disks {
		args = append(args, d.Device)
	}
	command := exec.CommandContext(t.Context(), "unshare", args...)
	command.Env = append(os.Environ(), environment...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("booting: %v\n%s%s", err, problems.String(), out.String())
	}
	output := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		kind, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		output[kind] = append(output[kind], text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", strings.Join(output["CALL"], "\n"), strings.Join(output["LOG"], "\n"))
		}
	})
	return output
}

// writeFiles writes the files of cloud-config that is no template below a folder.
func writeFiles(t *testing.T, folder string, data []byte) {
	t.Helper()
	if strings.HasPrefix(string(data), "## template") {
		t.Fatal("cloud-init alone knows the values of expressions")
	}
	for path, f := range cloudConfigFiles(t, data) {
		permissions, content, _ := strings.Cut(f, " ")
		mode, err := strconv.ParseUint(permissions, 8, 12)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(folder, path), []byte(content), os.FileMode(mode))
	}
}

func writeFile(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}

// cloudInitName is what cloud-init calls an operating system.
func cloudInitName(system bootstrapv1.OperatingSystem) string {
	if system == bootstrapv1.AmazonLinux {
		return "amazon"
	}
	return string(system)
}

func TestCloudInitBootsTheHost(t *testing.T) {
	t.Parallel()
	everything := all(input(bootstrapv1.Ubuntu))
	everything.Spec.Binaries = bootstrapv1.Binaries{} // there is no network
	subscribed := cases()["rhel-subscription"]
	subscribed.Spec.Packages, subscribed.Spec.PackageUpgrade = []string{"chrony"}, bootstrapv1.PackageUpgradeOnFirstBoot
	subscribed.Spec.Files = []bootstrapv1.File{ // the reboot empties /tmp
		{Path: "/tmp/by-root", Content: new("a\n")}, {Path: "/tmp/by-daemon", Content: new("b\n"), Owner: "daemon:daemon", Permissions: "0640"},
	}
	for name, c := range map[string]struct {
		in       node.Input
		hostname string
		first    []string // before the kernel is configured
		last     []string // after it
	}{
		"ubuntu with metadata":                           {cases()["ubuntu-metadata"], "node-1", []string{"ufw disable", networkd}, nil},
		"ubuntu with everything":                         {everything, "workers-x7k2p", []string{"update-ca-certificates ", "ufw disable", networkd}, []string{"systemctl restart chrony.service"}},
		"ubuntu with a Machine's name of several labels": {dotted(cases()["ubuntu"]), "workers.v1-x7k2p", []string{"ufw disable"}, nil},
		"rocky with a Machine's name of several labels":  {dotted(cases()["rocky"]), "workers.v1-x7k2p", enterprise, nil},
		"rocky with the Machine's name":                  {named(cases()["rocky"]), "workers-x7k2p", enterprise, nil},
		"rhel with a subscription":                       {subscribed, "node-1", slices.Concat([]string{registration, "dnf --quiet --assumeyes upgrade", "systemctl reboot", "dnf --quiet --assumeyes install chrony"}, enterprise), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := boot(t, c.in)
			if got := strings.Join(output["RESULT"], ""); !strings.Contains(got, `"errors":[]`) {
				t.Errorf("result = %s, want no errors", got)
			}
			if diff := cmp.Diff([]string{c.hostname}, output["HOSTNAME"]); diff != "" {
				t.Errorf("hostname (-want +got):\n%s", diff)
			}
			assertJoined(t, c.in, output, c.first, c.last)
		})
	}
}

// What hosts do first.
const (
	networkd     = "systemctl restart systemd-networkd.service"
	registration = "subscription-manager register --activationkey=kubernetes --org=1234567 --baseurl=https://satellite.example.test/pulp/content --serverurl=satellite.example.test:443/rhsm"
)

var enterprise = []string{"setenforce 0", "systemctl disable --quiet --now firewalld.service", "systemctl disable --quiet --now nm-cloud-setup.timer"}

// TestScriptPreparesTheHost has what does not depend on cloud-init.
func TestScriptPreparesTheHost(t *testing.T) {
	t.Parallel()
	user := cases()["rhel-user"]
	user.Spec.Kubelet.ProviderID = ""
	behind := with(cases()["rhel-subscription"], func(in *node.Input) {
		in.Spec.TrustedCAs, in.Spec.Proxy.HTTPS, in.Spec.Packages = string(in.CA), "http://user:pa%20ss@proxy.example.test:3128", []string{"chrony"}
	})
	for name, c := range map[string]struct {
		in    node.Input
		first []string
	}{
		"debian":         {cases()["debian"], []string{networkd}},
		"amazon linux":   {cases()["amazonlinux"], slices.Concat(enterprise, []string{"systemctl stop refresh-policy-routes@* policy-routes@*", networkd})},
		"rocky":          {cases()["rocky"], enterprise},
		"rhel by a user": {user, slices.Concat([]string{`subscription-manager register --username=operator --password=hunter2' " {{ 7*7 }} {% raw %} $(touch /canary) \ #`}, enterprise)},
		"rhel behind a proxy": {behind, slices.Concat([]string{
			"update-ca-trust extract",
			"subscription-manager config --server.proxy_scheme=http --server.proxy_hostname=proxy.example.test --server.proxy_port=3128 --server.proxy_user=user --server.proxy_password=pa ss",
			registration, "dnf --quiet --assumeyes install chrony",
		}, enterprise)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := run(t, c.in)
			assertJoined(t, c.in, output, c.first, nil)
			if proxy := c.in.Spec.Proxy.HTTPS; proxy != "" {
				if diff := cmp.Diff([]string{"proxy=" + proxy}, output["DNF"]); diff != "" {
					t.Errorf("the proxy of dnf (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// assertJoined checks that the script has made a Node of the host, with all files in their places.
func assertJoined(t *testing.T, in node.Input, output map[string][]string, first, last []string) {
	t.Helper()
	if diff := cmp.Diff([]string{"success"}, output["SUCCESS"]); diff != "" {
		t.Errorf("success file (-want +got):\n%s", diff)
	}
	ours := []string{"modprobe -a overlay br_netfilter", "sysctl --quiet --load /etc/sysctl.d/99-drover.conf", "swapoff -a", "systemctl mask --quiet swap.target"}
	assertOrder(t, slices.Concat(first, ours, last, []string{"systemctl restart containerd.service", "systemctl restart kubelet.service"}), output["CALL"])
	assertFiles(t, in, output["FILE"])
	if in.Spec.RHEL.Subscription != (bootstrapv1.RHELSubscription{}) {
		assertOrder(t, []string{"systemctl restart kubelet.service", "systemctl enable --quiet drover-subscription.service", "systemctl restart drover-subscription.service"}, output["CALL"])
		if diff := cmp.Diff([]string{"here"}, output["REGISTERED"]); diff != "" {
			t.Errorf("the host will not unregister itself (-want +got):\n%s", diff)
		}
	}
	if canary := output["CANARY"]; canary != nil {
		t.Errorf("a secret was run as code: %s", canary)
	}
}

// TestRebootDuringAnInstallation: dpkg refuses to install anything until it has completed what was interrupted, and cloud-init runs
// nothing a second time by itself.
func TestRebootDuringAnInstallation(t *testing.T) {
	t.Parallel()
	in := packages(bootstrapv1.Ubuntu)
	interrupted := `if [ -e /interrupted ]; then exit 100; fi; [ -e /installs ] || { touch /interrupted /installs; echo systemctl reboot >>/shims.log; kill -KILL $PPID; exit 1; }`
	output := boot(t, in, "SHIMS="+does("apt-get", "install", interrupted)+"\necho 'rm -f /interrupted' >>dpkg")
	assertJoined(t, in, output, []string{"systemctl reboot", "dpkg --force-confold --configure -a"}, nil)
}

// named is a host that has the name of its Machine, whatever name the cloud gives it.
func named(in node.Input) node.Input {
	spec := *in.Spec
	spec.Hostname = bootstrapv1.HostnameFromMachine
	in.Spec = &spec
	return in
}

// dotted is a host that has the name of its Machine, which is not one label.
func dotted(in node.Input) node.Input {
	in.MachineName = "workers.v1-x7k2p"
	return named(in)
}

// assertOrder checks that each call comes after the one before it.
func assertOrder(t *testing.T, want, got []string) {
	t.Helper()
	rest := got
	for _, call := range want {
		at := -1
		for i := range rest {
			if strings.TrimSpace(rest[i]) == strings.TrimSpace(call) {
				at = i
				break
			}
		}
		if at < 0 {
			t.Errorf("%q was not called in its turn; calls:\n%s", call, strings.Join(got, "\n"))
			return
		}
		rest = rest[at+1:]
	}
}

// assertFiles checks that every file exists with its bytes, its mode and its owner.
func assertFiles(t *testing.T, in node.Input, got []string) {
	t.Helper()
	described, err := node.Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range described.AllFiles() {
		owner := f.Owner
		if owner == "" {
			owner = "root:root"
		}
		want = append(want, fmt.Sprintf("%s %04o %s %x", f.Path, f.Mode, owner, sha256.Sum256(f.Content)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestFileSystemIsCreatedAndMounted does so on a real block device, by cloud-init's own module and our script; what was
// written below the mount before is found on it afterwards.
func TestFileSystemIsCreatedAndMounted(t *testing.T) {
	t.Parallel()
	in := input(bootstrapv1.Ubuntu)
	in.Spec.Disks = []bootstrapv1.Disk{{Device: loopDevice(t), Label: "data", MountPath: "/srv/data", MountOptions: []string{"noatime"}}}
	in.Spec.Files = []bootstrapv1.File{{Path: "/srv/data/before", Content: new("the mount\n")}}
	output := boot(t, in)
	if diff := cmp.Diff([]string{"/srv/data ext4 data"}, output["MOUNT"]); diff != "" {
		t.Errorf("mount (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"success"}, output["SUCCESS"]); diff != "" {
		t.Errorf("success file (-want +got):\n%s", diff)
	}
	assertOrder(t, []string{"systemctl enable --quiet srv-data.mount", "systemctl start srv-data.mount", "systemctl restart containerd.service"}, output["CALL"])
	assertFiles(t, in, output["FILE"])
}

// loopDevice is an empty disk.
func loopDevice(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: there is no disk to be had")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	device := strings.TrimSpace(string(out))
	if err != nil {
		t.Skipf("no loop devices here: %v: %s", err, device)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detaching %s: %v: %s", device, err, out)
		}
	})
	return device
}

func TestFailedStepIsReported(t *testing.T) {
	t.Parallel()
	in := input(bootstrapv1.Ubuntu)
	in.Spec.PreCommands = []string{"echo will fail; false"}
	output := boot(t, in)
	if got := strings.Join(output["RESULT"], ""); strings.Contains(got, `"errors":[]`) {
		t.Errorf("result = %s, want an error", got)
	}
	if diff := cmp.Diff([]string{""}, output["SUCCESS"]); diff != "" {
		t.Errorf("success file (-want +got):\n%s", diff)
	}
	for _, call := range output["CALL"] {
		if strings.Contains(call, "kubelet") {
			t.Errorf("went on after the failure: %s", call)
		}
	}
}

// packages is a host that installs two.
func packages(system bootstrapv1.OperatingSystem) node.Input {
	return with(input(system), func(in *node.Input) { in.Spec.Packages = []string{"nfs-utils", "iscsi"} })
}

// TestFailedPackagesAreReported: what fails at first may be done later, and a host that lacks something must not become a Node.
func TestFailedPackagesAreReported(t *testing.T) {
	t.Parallel()
	upgrade := func(system bootstrapv1.OperatingSystem) node.Input {
		return with(input(system), func(in *node.Input) { in.Spec.PackageUpgrade = bootstrapv1.PackageUpgradeOnFirstBoot })
	}
	owned := with(packages(bootstrapv1.Ubuntu), func(in *node.Input) {
		in.Spec.Files = []bootstrapv1.File{{Path: "/etc/by-app", Content: new("b\n"), Owner: "app:app"}, {Path: "/etc/by-root", Content: new("a\n")}}
	})
	existing := with(packages(bootstrapv1.Ubuntu), func(in *node.Input) {
		in.Spec.Files = []bootstrapv1.File{
			{Path: "/etc/by-daemon", Content: new("b\n"), Owner: "daemon:daemon", Permissions: "0640"}, {Path: "/etc/of-package/a", Content: new("c\n"), Owner: "daemon:daemon"},
		}
	})
	modules := does("modprobe", "--dry-run", "[ -e /modules ] || exit 1")
	for name, c := range map[string]struct {
		in     node.Input
		shims  string
		reason string // empty: the host joins
	}{
		"apt-get that installs nothing":        {packages(bootstrapv1.Ubuntu), does("apt-get", "install", "exit 100"), "the installation of packages did not succeed within 30 minutes"},
		"dnf that installs nothing":            {packages(bootstrapv1.Rocky), does("dnf", "install", "exit 1"), "the installation of packages did not succeed within 30 minutes"},
		"apt-get that upgrades nothing":        {upgrade(bootstrapv1.Debian), does("apt-get", "upgrade", "exit 100"), "the upgrade of packages did not succeed within 30 minutes"},
		"dnf that upgrades nothing":            {upgrade(bootstrapv1.AmazonLinux), does("dnf", "upgrade", "exit 1"), "the upgrade of packages did not succeed within 30 minutes"},
		"a server that registers no host":      {cases()["rhel-subscription"], does("subscription-manager", "register", "exit 70"), "the registration of the host did not succeed within 30 minutes"},
		"a repository without kernel modules":  {cases()["rocky"], modules + does("dnf", "install", "exit 1"), "the installation of kernel modules did not succeed within 30 minutes"},
		"a file whose owner does not exist":    {owned, "", "spec.files: the owner app:app of /etc/by-app does not exist"},
		"a file whose owner a package creates": {owned, "echo 'case \"$*\" in *install*) useradd app ;; esac' >>apt-get", ""},
		"a file of apt-get whose owner exists": {existing, does("apt-get", "install",
			`[ "$(cat /etc/by-daemon)" = b ] && [ "$(stat -c %U /etc/by-daemon)" = daemon ] && ! [ -e /etc/of-package ] || exit 100`), ""},
		"apt-get that fails at first":                     {packages(bootstrapv1.Ubuntu), does("apt-get", "install", atFirst), ""},
		"dnf that fails at first":                         {packages(bootstrapv1.Rocky), does("dnf", "install", atFirst), ""},
		"a server that registers no host at first":        {cases()["rhel-subscription"], does("subscription-manager", "register", atFirst), ""},
		"kernel modules that fail at first":               {cases()["rocky"], modules + does("dnf", "install", atFirst+"; touch /modules"), ""},
		"packages of the image without a network":         {packages(bootstrapv1.Ubuntu), does("apt-get", "", "exit 100") + inImage, ""},
		"packages of the image without a network for dnf": {packages(bootstrapv1.Rocky), does("dnf", "", "exit 1") + inImage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := run(t, c.in, "SHIMS="+c.shims)
			if c.reason == "" {
				assertJoined(t, c.in, output, nil, nil)
				return
			}
			if diff := cmp.Diff([]string{""}, output["SUCCESS"]); diff != "" {
				t.Errorf("success file (-want +got):\n%s", diff)
			}
			if _, after, found := strings.Cut(strings.Join(output["LOG"], "\n"), c.reason); !found || !strings.HasSuffix(after, "\ndrover-bootstrap: state=Failed step=OperatingSystem") {
				t.Errorf("the console has no %q, or not as the reason of the failure: %q", c.reason, after)
			}
			if slices.ContainsFunc(output["CALL"], func(call string) bool { return strings.Contains(call, "kubelet") }) {
				t.Error("the kubelet was started")
			}
		})
	}
}

// atFirst fails twice.
const atFirst = `echo >>/tries; [ $(wc -l </tries) -gt 2 ] || exit 1`

// inImage has the packages in the image.
const inImage = "\nprintf '%s\\n' nfs-utils iscsi >../../installed"

// does changes a shim: where its arguments have a word, it does something else first.
func does(program, word, what string) string {
	return "sed -i '2a case \"$*\" in *" + word + "*) " + what + " ;; esac' " + program + "\n"
}
