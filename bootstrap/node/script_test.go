// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func bash(t *testing.T, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+script)
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestScriptsAreValidBash(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		in := minimal(system)
		in.Version = "v1.36.3"
		in.Spec.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a.example.test/x", SHA256: strings.Repeat("0", 64)}}
		in.Spec.Proxy.HTTP = "http://proxy.example.test"
		in.Spec.PreCommands = []string{"echo 'an open quote is caught here, not in our script"}
		n, err := Describe(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range n.AllFiles() {
			if !strings.HasPrefix(string(f.Content), "#!/bin/bash\n") {
				continue
			}
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, f.Content, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput()
			if broken := strings.HasSuffix(f.Path, "pre-00.sh"); (err != nil) != broken {
				t.Errorf("%s: %s: %v\n%s", system, f.Path, err, out)
			}
		}
	}
}

func TestDownloadIsInstalledOnlyAfterVerification(t *testing.T) {
	t.Parallel()
	content := []byte("a program")
	sum := sha256.Sum256(content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	cases := map[string]struct {
		digest string
		placed bool
	}{
		"the right checksum": {hex.EncodeToString(sum[:]), true},
		"a wrong checksum":   {strings.Repeat("0", 64), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := filepath.Join(t.TempDir(), "bin", "kubelet")
			out, err := bash(t, reportFunction+"\n"+fetchFunction+"\nfetch '"+server.URL+"' "+c.digest+" "+target)
			if (err == nil) != c.placed {
				t.Errorf("err = %v\n%s", err, out)
			}
			got, err := os.ReadFile(target)
			if placed := err == nil && string(got) == string(content); placed != c.placed {
				t.Errorf("placed = %t, want %t", placed, c.placed)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), "*.part")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestStalledDownloadIsRetried: a mirror may hold a connection open and send nothing.
func TestStalledDownloadIsRetried(t *testing.T) {
	t.Parallel()
	content := []byte("a program")
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			_, _ = w.Write(content)
			return
		}
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(content)
	fetch := strings.Replace(reportFunction+"\n"+fetchFunction, "--speed-time 60", "--speed-time 1", 1)
	target := filepath.Join(t.TempDir(), "kubelet")
	if out, err := bash(t, fetch+"\nfetch '"+server.URL+"' "+hex.EncodeToString(sum[:])+" "+target); err != nil {
		t.Errorf("err = %v\n%s", err, out)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != string(content) {
		t.Errorf("downloaded %q, %v", got, err)
	}
}

// TestDownloadIsRetriedWhereThatCanHelp: a mirror that is down for a while delays the bootstrap, one that lacks the file
// ends it.
func TestDownloadIsRetriedWhereThatCanHelp(t *testing.T) {
	t.Parallel()
	content := []byte("a program")
	sum := sha256.Sum256(content)
	for name, test := range map[string]struct {
		answers  []int // before the file is served
		requests int
		problem  string
	}{
		"a server that is down":            {[]int{503, 500}, 3, ""},
		"a server that limits requests":    {[]int{429, 408}, 3, ""},
		"a server without the file":        {[]int{404}, 1, "the server answers 404"},
		"a server that refuses":            {[]int{403}, 1, "the server answers 403"},
		"a server that is down for ever":   {slices.Repeat([]int{503}, 100), 62, "not downloaded within 30 minutes"},
		"a server that is there at last":   {slices.Repeat([]int{503}, 60), 61, ""},
		"a server that closes connections": {[]int{0}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := int(requests.Add(1))
				switch {
				case n > len(test.answers):
					_, _ = w.Write(content)
				case test.answers[n-1] == 0:
					panic(http.ErrAbortHandler)
				default:
					w.WriteHeader(test.answers[n-1])
				}
			}))
			t.Cleanup(server.Close)
			target := filepath.Join(t.TempDir(), "kubelet")
			out, err := bash(t, reportFunction+clock+fetchFunction+"\nfetch '"+server.URL+"' "+hex.EncodeToString(sum[:])+" "+target)
			if (err == nil) != (test.problem == "") || !strings.Contains(out, test.problem) {
				t.Errorf("err = %v\n%s", err, out)
			}
			if got := int(requests.Load()); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
			if _, err := os.Stat(target); (err == nil) != (test.problem == "") {
				t.Errorf("the file is in place: %t", err == nil)
			}
		})
	}
}

// TestScriptWorksWithoutIPv6 runs the line that leaves out the settings of a kernel without IPv6.
func TestScriptWorksWithoutIPv6(t *testing.T) {
	t.Parallel()
	n, err := Describe(minimal(bootstrapv1.Ubuntu))
	must(t, err)
	files := map[string]string{}
	for _, f := range n.AllFiles() {
		files[f.Path] = string(f.Content)
	}
	var line string
	for each := range strings.Lines(files[ScriptFile]) {
		if strings.Contains(each, "/proc/sys/net/ipv6") {
			line = each
		}
	}
	for there, want := range map[bool]string{true: files[sysctlFile], false: strings.ReplaceAll(files[sysctlFile], "net.ipv6.conf.all.forwarding = 1\n", "")} {
		folder, file := t.TempDir(), filepath.Join(t.TempDir(), "sysctl.conf")
		must(t, os.WriteFile(file, []byte(files[sysctlFile]), 0o600))
		proc := folder
		if !there {
			proc = filepath.Join(folder, "absent")
		}
		if out, err := bash(t, strings.NewReplacer("/proc/sys/net/ipv6", proc, sysctlFile, file).Replace(line)); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want || line == "" {
			t.Errorf("with IPv6 %t the file has %q, want %q (%v)", there, got, want, err)
		}
	}
}

func TestScriptFailsWithoutABinaryForTheArchitecture(t *testing.T) {
	t.Parallel()
	n := &Node{Downloads: []Download{{Name: "kubelet", Target: filepath.Join(t.TempDir(), "kubelet"), Sources: []Source{{Architecture: "none", URL: "https://a.example.test", SHA256: "0"}}}}}
	var b strings.Builder
	n.writeDownloads(func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...) + "\n") })
	if out, err := bash(t, b.String()); err == nil || !strings.Contains(out, "no kubelet is configured for") {
		t.Errorf("err = %v\n%s", err, out)
	}
}

// TestSpecValuesAreNotExecuted has values that were code once arrive as what they are, or refused with their field.
func TestSpecValuesAreNotExecuted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://user:p&w@proxy:3128", "http://user:p`id`@proxy:3128", "http://u:a;b(c)|d@proxy:3128"} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Proxy.HTTP = url
		n, err := Describe(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range n.AllFiles() {
			if f.Path != proxyFile {
				continue
			}
			file := filepath.Join(t.TempDir(), "proxy.env")
			if err := os.WriteFile(file, f.Content, f.Mode); err != nil {
				t.Fatal(err)
			}
			if got, err := bash(t, "set -a; . "+file+"; set +a; printenv HTTP_PROXY http_proxy"); err != nil || got != url+"\n"+url+"\n" {
				t.Errorf("the proxy %q arrives as %q, %v", url, got, err)
			}
		}
	}
	for _, version := range []string{"v1.36.3'; curl x |bash; '", "banana", "$(id)", "v1.36.3\nid"} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Version = version
		_, err := Describe(in)
		if refused, is := errors.AsType[*InvalidError](err); !is || refused.Field != "Machine.spec.version" {
			t.Errorf("version %q: got %v", version, err)
		}
	}
}

// TestTimeServiceIsThatOfTheImage: images of Ubuntu have chrony or systemd-timesyncd, and a bootstrap that enabled one that
// is missing would end there.
func TestTimeServiceIsThatOfTheImage(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.NTP.Servers = []string{"ntp.example.test"}
	var script strings.Builder
	describe(t, in).writeTimeService(func(format string, args ...any) { fmt.Fprintf(&script, format+"\n", args...) })
	for name, test := range map[string]struct {
		units, restarted string
		fails            bool
	}{
		"chrony":                       {units: "chrony.service", restarted: "chrony.service"},
		"systemd-timesyncd":            {units: "systemd-timesyncd.service", restarted: "systemd-timesyncd.service"},
		"chrony where both are there":  {units: "systemd-timesyncd.service chrony.service", restarted: "chrony.service"},
		"an error where there is none": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := bash(t, `units=" `+test.units+` "
systemctl() {
  case $1 in
    cat) [[ $units == *" $2 "* ]] ;;
    restart) echo "restarted $2" ;;
  esac
}
`+script.String())
			if (err != nil) != test.fails {
				t.Fatalf("error %v: %s", err, out)
			}
			if want := "restarted " + test.restarted + "\n"; !test.fails && out != want {
				t.Errorf("output %q, want %q", out, want)
			}
			if test.fails && !strings.Contains(out, "spec.ntp.servers") {
				t.Errorf("the output does not name the field: %q", out)
			}
		})
	}
}

// TestArchiveThatCannotBeUnpackedEndsTheBootstrap: an archive whose checksum is right but that tar cannot unpack
// (another compression, a full disk, no tar or gzip).
func TestArchiveThatCannotBeUnpackedEndsTheBootstrap(t *testing.T) {
	t.Parallel()
	content := []byte("not a gzip-compressed archive")
	sum := sha256.Sum256(content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(server.Close)
	n := &Node{Downloads: []Download{{Name: "cni-plugins", Target: "/opt/cni/bin", Unpack: true, Sources: []Source{
		{"amd64", server.URL, hex.EncodeToString(sum[:])}, {"arm64", server.URL, hex.EncodeToString(sum[:])},
	}}}}
	root := t.TempDir()
	script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "modprobe", "true", "swapoff", "true", "sysctl --", "true --", "systemctl", "true").Replace(string(n.script()))
	if err := os.MkdirAll(root+"/etc/sysctl.d", 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "bootstrap.sh")
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", file).CombinedOutput()
	_, success := os.Stat(root + SuccessFile)
	if err == nil || success == nil {
		t.Errorf("the archive was not unpacked, and the bootstrap counts as a success: err = %v, success file: %v\n%s", err, success, out)
	}
}

// TestConsoleShowsTheStepsOfTheBootstrap: the last line is the state of a bootstrap that ended.
func TestConsoleShowsTheStepsOfTheBootstrap(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another program")) }))
	t.Cleanup(server.Close)
	download := []Download{{Name: "kubelet", Target: "/opt/bin/kubelet", Sources: []Source{
		{"amd64", server.URL + "/kubelet", strings.Repeat("0", 64)}, {"arm64", server.URL + "/kubelet", strings.Repeat("0", 64)},
	}}}
	running := func(step string) string { return "drover-bootstrap: state=Running step=" + step + "\n" }
	failed := func(step string) string { return "drover-bootstrap: state=Failed step=" + step + "\n" }
	for name, test := range map[string]struct {
		node       Node
		pre, post  string
		lines      string
		last       string // what is said before the last line
		successful bool
	}{
		"a bootstrap that succeeds": {
			node: Node{PreCommands: []string{"x"}, PostCommands: []string{"x"}, Setup: []string{"true"}}, pre: "true", post: "true", successful: true,
			lines: running("OperatingSystem") + running("System") + running("preCommands[0]") + running("Services") + running("postCommands[0]") + "drover-bootstrap: state=Succeeded step=All\n",
		},
		"a binary with another checksum": {
			node: Node{Downloads: download}, lines: running("System") + running("Downloads") + failed("Downloads"),
			last: "bootstrap: " + server.URL + "/kubelet does not have the checksum sha256:" + strings.Repeat("0", 64),
		},
		"a command that fails": {
			node: Node{PreCommands: []string{"x"}}, pre: "echo the disk is not there; false", lines: running("System") + running("preCommands[0]") + failed("preCommands[0]"),
			last: "the disk is not there",
		},
		"a kubelet that is missing": {
			node: Node{kubelet: "/opt/bin/none"}, lines: running("System") + running("Services") + failed("Services"),
			last: "use an image that has it, or spec.binaries.kubelet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, content := range map[string]string{commandPath("pre", 0): test.pre, commandPath("post", 0): test.post, sysctlFile: ""} {
				must(t, os.MkdirAll(filepath.Dir(root+file), 0o755))
				must(t, os.WriteFile(root+file, []byte("#!/bin/bash\nset -euo pipefail\n"+content+"\n"), 0o700)) //nolint:gosec // it is a program
			}
			script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "modprobe", "true", "swapoff", "true", "sysctl --", "true --", "systemctl", "true").Replace(string(test.node.script()))
			out, err := bash(t, script)
			if (err == nil) != test.successful {
				t.Errorf("err = %v", err)
			}
			var lines []string
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "drover-bootstrap: ") {
					lines = append(lines, line)
				}
			}
			if got := strings.Join(lines, ""); got != test.lines {
				t.Errorf("the console has\n%swant\n%s", got, test.lines)
			}
			if !strings.HasSuffix(out, lines[len(lines)-1]) || !strings.Contains(strings.ReplaceAll(out, root, ""), test.last) {
				t.Errorf("the console has\n%s", out)
			}
		})
	}
}

// TestBootstrapGoesOnAfterAReboot: Flatcar runs the script again at the next boot if it did not end, and kubeadm refuses to
// join a host that has its files already.
func TestBootstrapGoesOnAfterAReboot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	kubeadm := root + "/kubeadm"
	for file, content := range map[string]string{
		kubeadm:                       "#!/bin/bash\nif [ -e " + root + "/kubelet.conf ]; then exit 1; fi\ntouch " + root + "/kubelet.conf\n",
		root + commandPath("post", 0): "#!/bin/bash\n[ -e " + root + "/rebooted ]\n",
		root + sysctlFile:             "",
		root + joinFile:               "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	n := &Node{kubeadm: "KUBEADM", Services: []string{kubeletUnit}, PostCommands: []string{"x"}}
	script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "/var/", root+"/var/", "modprobe", "true", "swapoff", "true", "sysctl --", "true --", "systemctl", "true", "KUBEADM", kubeadm).Replace(string(n.script()))
	if out, err := bash(t, script); err == nil {
		t.Fatalf("the first run was not interrupted:\n%s", out)
	}
	if err := os.WriteFile(root+"/rebooted", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := bash(t, script); err != nil {
		t.Errorf("the second run failed: %v\n%s", err, out)
	}
	if _, err := os.Stat(root + SuccessFile); err != nil {
		t.Error("there is no success file")
	}
}

// TestKubeletOfTheImageDoesNotStartEarly: an image may have the service enabled, as those for Cluster API, or start it whenever
// it does not run, as system extensions of Flatcar. Before the script starts it, it would run without the kernel's settings and
// before preCommands, and be stopped in the middle of its request for a certificate; and before systemd has read the unit of
// this project, it would join without its labels, taints and providerID.
func TestKubeletOfTheImageDoesNotStartEarly(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		n := describe(t, minimal(system))
		_, condition, _ := strings.Cut(unitOf(t, n, kubeletUnit).Content, "\nConditionPathExists=")
		condition, _, _ = strings.Cut(condition, "\n")
		if condition == "" {
			t.Errorf("%s: the kubelet starts whenever the image starts it", system)
			continue
		}
		for _, f := range n.AllFiles() {
			if f.Path == condition || f.Path == "/etc/kubernetes/bootstrap-kubelet.conf" {
				t.Errorf("%s: a kubelet of the image can join by %s", system, f.Path)
			}
		}
		root := t.TempDir()
		for file, content := range map[string]string{commandPath("pre", 0): "#!/bin/bash\n! [ -e " + root + condition + " ]\n", sysctlFile: ""} {
			must(t, os.MkdirAll(filepath.Dir(root+file), 0o755))
			must(t, os.WriteFile(root+file, []byte(content), 0o700)) //nolint:gosec // it is a program
		}
		host := &Node{Services: n.Services, PreCommands: []string{"x"}}
		script := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/run/", root+"/run/", "/var/", root+"/var/", "modprobe", "true", "swapoff", "true", "sysctl --", "true --").Replace(string(host.script()))
		shim := "systemctl() { case \"$*\" in 'restart kubelet.service') [ -e " + root + condition + " ] && echo the kubelet starts ;; 'enable --quiet kubelet.service') ! [ -e " + root + condition + " ] ;; esac; }\n"
		if out, err := bash(t, shim+script); err != nil || !strings.Contains(out, "the kubelet starts\n") {
			t.Errorf("%s: the script does not start the kubelet: %v\n%s", system, err, out)
		}
	}
}

// TestSystemExtensionDoesNotStartTheKubelet: that of Flatcar has systemd start the kubelet whenever it does not run, by a
// drop-in of multi-user.target. While kubeadm join configures a kubelet that it has stopped, the one that systemd started then
// requests a certificate, and loses its key when kubeadm restarts it at the end.
func TestSystemExtensionDoesNotStartTheKubelet(t *testing.T) {
	t.Parallel()
	for _, method := range []bootstrapv1.JoinMethod{bootstrapv1.JoinKubeletTLSBootstrap, bootstrapv1.JoinKubeadm} {
		in := minimal(bootstrapv1.Flatcar)
		in.Spec.Join.Method = method
		n := describe(t, in)
		const dropIn = "multi-user.target.d/10-kubelet-service.conf" // of the same name, so that systemd reads it instead
		if !n.hasFile("/etc/systemd/system/" + dropIn) {
			t.Errorf("%s: systemd reads /usr/lib/systemd/system/%s, which has it start the kubelet", method, dropIn)
		} else if content, _ := contentAt(t, n, "/etc/systemd/system/"+dropIn); strings.Contains(content, "Upholds") {
			t.Errorf("%s: the drop-in is %q", method, content)
		}
	}
}

// TestMissingVariableOfFlatcarEndsTheBootstrap, as missing metadata does with jinja: coreos-metadata.service failed, or the
// cloud has no such variable.
func TestMissingVariableOfFlatcarEndsTheBootstrap(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Flatcar)
	in.Spec.Kubelet.ProviderID = "aws:///${COREOS_EC2_AVAILABILITY_ZONE}/${COREOS_EC2_INSTANCE_ID}"
	in.Spec.Kubelet.HostnameOverride = "${COREOS_EC2_HOSTNAME}"
	n, err := Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	const zone, id, host = "COREOS_EC2_AVAILABILITY_ZONE=z\n", "COREOS_EC2_INSTANCE_ID=i-1\n", "COREOS_EC2_HOSTNAME=h\n"
	for name, test := range map[string]struct {
		metadata string
		missing  string
	}{
		"all are there": {zone + id + host, ""},
		"no file":       {"", "COREOS_EC2_AVAILABILITY_ZONE"},
		"no ID":         {zone + host, "COREOS_EC2_INSTANCE_ID"},
		"an empty ID":   {zone + "COREOS_EC2_INSTANCE_ID=\n" + host, "COREOS_EC2_INSTANCE_ID"},
		"no host name":  {zone + id + "X" + host, "COREOS_EC2_HOSTNAME"},
	} {
		file := filepath.Join(t.TempDir(), "flatcar")
		if test.metadata != "" {
			if err := os.WriteFile(file, []byte(test.metadata), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := "systemctl() { return 1; }\n"
		n.writeMetadataCheck(func(format string, args ...any) { script += fmt.Sprintf(format, args...) + "\n" })
		out, err := bash(t, strings.ReplaceAll(script, "/run/metadata/flatcar", file))
		if (err != nil) != (test.missing != "") || !strings.Contains(out, test.missing) {
			t.Errorf("%s: err = %v: %s", name, err, out)
		}
	}
}
