// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
	"drover.io/bootstrap/node/quote"
)

// texts are all strings of a decoded document, its keys too.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, each := range v {
			all = append(all, texts(each)...)
		}
		return all
	case map[string]any:
		var all []string
		for key, each := range v {
			all = append(append(all, key), texts(each)...)
		}
		return all
	}
	return nil
}

// scripts are those that bash has read already.
var scripts sync.Map

// read are the strings that a reader of a file in its own language gets.
func read(t *testing.T, path string, content []byte) []string {
	t.Helper()
	all := []string{path, string(content)}
	var document any
	var err error
	switch filepath.Ext(path) {
	case ".toml":
		var table map[string]any
		err = toml.Unmarshal(content, &table)
		document = table
	case ".yaml", ".json", ".conf":
		if strings.HasPrefix(path, "/etc/kubernetes") || strings.HasPrefix(path, "/var/lib/kubelet") || strings.HasPrefix(path, "/etc/drover/kubeadm") {
			err = yaml.Unmarshal(content, &document)
		}
	case ".sh":
		if _, known := scripts.LoadOrStore(string(content), true); known {
			break
		}
		syntax := exec.CommandContext(t.Context(), "bash", "-n")
		syntax.Stdin = strings.NewReader(string(content))
		if out, failed := syntax.CombinedOutput(); failed != nil {
			t.Errorf("%s is no script: %s\n%s", path, out, content)
		}
	}
	if err != nil {
		t.Errorf("%s cannot be read: %v\n%s", path, err, content)
	}
	return append(all, texts(document)...)
}

// arrived are the strings that a host gets, each as the program reads it that it is for. Units are read by
// systemd itself.
func arrived(t *testing.T, described *node.Node) []string {
	t.Helper()
	all := []string{described.Hostname}
	files := described.AllFiles()
	for _, f := range files {
		all = append(append(all, read(t, f.Path, f.Content)...), f.Owner)
	}
	for _, u := range described.Users {
		all = append(append(append(all, u.Name, u.Sudo, u.Shell), u.Groups...), u.SSHAuthorizedKeys...)
	}
	for _, d := range described.Disks {
		all = append(append(all, d.Device, d.Filesystem, d.Label, d.MountPath), d.MountOptions...)
	}
	return all
}

// holds reports whether one of the strings is, or contains, what was written, as it is or as a word of a shell.
func holds(all []string, written string) bool {
	return slices.ContainsFunc(all, func(s string) bool {
		return strings.Contains(s, written) || strings.Contains(s, quote.Shell(written))
	})
}

// TestWrittenFilesRoundTrip puts each hostile string into each field that takes it, and reads every file and unit as
// its program does.
func TestWrittenFilesRoundTrip(t *testing.T) {
	t.Parallel()
	for host := range hosts {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			var commands []command
			taken := accepted(t, host)
			for _, l := range triedOn(host) {
				for _, s := range taken[l.path] {
					in := hosts[host]()
					l.set(&in, s)
					commands = append(commands, commandOf(t, in, l, s))
				}
			}
			systemdReads(t, commands)
			for _, c := range commands {
				if !c.found && !slices.Contains(unused[host], c.field) && !strings.Contains(c.written, "{{ ds.meta_data") {
					t.Errorf("%s = %q does not arrive", c.field, c.written)
				}
			}
		})
	}
}

// unused are the fields that a host leaves out because another has the same.
var unused = map[string][]string{
	"ubuntu": {
		".Endpoint", ".TLSServerName", ".ServiceCIDR", ".Version",
		".Spec.rhel.subscription.organization", ".Spec.rhel.subscription.server", ".Spec.rhel.subscription.contentURL", // a rule refuses them
	},
	"flatcar":        {".Endpoint", ".TLSServerName", ".ServiceCIDR", ".Version"},
	"ubuntu-cluster": {".ServiceCIDR", ".Version"}, // a range that is none gives the default
}

// command is the kubelet's unit with one hostile string in the specification.
type command struct {
	field, written, unit string
	found                bool
}

func commandOf(t *testing.T, in node.Input, l leaf, s string) command {
	t.Helper()
	described, err := node.Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	c := command{field: l.path, written: s, found: holds(arrived(t, described), s)}
	for _, u := range described.Units {
		if u.Name == "kubelet.service" && !u.Jinja && !c.found {
			c.unit = u.Content
		}
	}
	return c
}

// systemdReads has systemd load all units, and marks those whose command lines hold what was written.
func systemdReads(t *testing.T, commands []command) {
	t.Helper()
	program, err := exec.LookPath("systemd")
	if err != nil {
		t.Skip("systemd is not here")
	}
	folder := t.TempDir()
	units, runtime := filepath.Join(folder, "units"), filepath.Join(folder, "run")
	for _, each := range []string{units, runtime} {
		if err := os.Mkdir(each, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var expects strings.Builder
	expects.WriteString("[Unit]\n")
	for i, c := range commands {
		if c.unit == "" {
			continue
		}
		name := "k" + itoa(i) + ".service"
		expects.WriteString("Wants=" + name + "\n")
		if err := os.WriteFile(filepath.Join(units, name), []byte(c.unit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(units, "all.target"), []byte(expects.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	loaded := load(t, program, units, runtime)
	for i, c := range commands {
		if c.unit == "" {
			continue
		}
		args, found := loaded["k"+itoa(i)+".service"]
		if !found {
			t.Errorf("systemd does not load the unit of %s = %q:\n%s", c.field, c.written, c.unit)
			continue
		}
		commands[i].found = c.found || holds(args, c.written)
	}
}

// TestHostsBootWithHostileStrings boots hosts in which every field holds a hostile string, by the real stages of
// cloud-init or by Ignition, and runs the script: no string becomes code, and everything arrives.
func TestHostsBootWithHostileStrings(t *testing.T) {
	t.Parallel()
	for host, n := range map[string]int{"ubuntu": 3, "ubuntu-kubeadm": 1, "ubuntu-cluster": 1, "rhel": 2} {
		for i, in := range batches(t, host, n) {
			t.Run(host+itoa(i), func(t *testing.T) {
				t.Parallel()
				in.Version = "v1.36.3"
				in.Spec.Kubelet.ProviderID = "{{ ds.meta_data.provider_id }}" // makes a template of the whole
				output := boot(t, in)
				if output["CANARY"] != nil {
					t.Error("a string of the specification was executed")
				}
				if diff := cmp.Diff([]string{"success"}, output["SUCCESS"]); diff != "" {
					t.Errorf("success file (-want +got):\n%s", diff)
				}
				assertUsers(t, in, output)
				assertDownloads(t, in, output["CALL"])
			})
		}
	}
	for i, in := range batches(t, "flatcar", 2) {
		t.Run("flatcar"+itoa(i), func(t *testing.T) {
			t.Parallel()
			in.Spec.Users = nil // useradd needs a whole distribution below the root directory
			in.Spec.Files = slices.Clone(in.Spec.Files)
			for f := range in.Spec.Files {
				in.Spec.Files[f].Owner = ""
			}
			root := apply(t, in)
			described, err := node.Describe(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range described.AllFiles() {
				assertWritten(t, root, f)
			}
		})
	}
}

func assertUsers(t *testing.T, in node.Input, output map[string][]string) {
	t.Helper()
	for _, u := range in.Spec.Users {
		if u.Sudo != "" && !holds(output["SUDO"], u.Sudo) {
			t.Errorf("sudo rules %q lack %q", output["SUDO"], u.Sudo)
		}
		for _, key := range u.SSHAuthorizedKeys {
			if !holds(output["KEY"], key) {
				t.Errorf("SSH keys %q lack %q", output["KEY"], key)
			}
		}
	}
}

func assertDownloads(t *testing.T, in node.Input, calls []string) {
	t.Helper()
	for _, d := range slices.Concat(in.Spec.Binaries.Kubelet, in.Spec.Binaries.Runc, in.Spec.Binaries.Kubeadm) {
		if !slices.ContainsFunc(calls, func(call string) bool {
			return strings.HasPrefix(call, "curl ") && strings.HasSuffix(strings.TrimSpace(call), "--url "+d.URL)
		}) {
			t.Errorf("%s was not fetched: %q", d.URL, calls)
		}
	}
}

// FuzzSpecification looks for a string that a field takes and that does not arrive.
func FuzzSpecification(f *testing.F) {
	f.Add("a'\"`$(touch /canary)\n{{ 7*7 }}%h\\")
	f.Fuzz(func(t *testing.T, s string) {
		host := "ubuntu"
		for _, l := range triedOn(host) {
			in := try(t, host, l, s)
			if in == nil {
				continue
			}
			data, format, err := render.Data(*in)
			if err != nil || format != bootstrapv1.CloudConfig {
				t.Fatal(format, err)
			}
			if !strings.HasPrefix(string(data), "## template: jinja") {
				cloudConfigFiles(t, data)
			}
		}
	})
}
