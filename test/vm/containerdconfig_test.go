// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"drover.io/test/controlplane/binaries"
)

// TestContainerd2KeepsTheConfiguration has containerd 2 convert the configuration that is written for all versions, as it
// does at each start: every setting is in the newest version of the format, too.
func TestContainerd2KeepsTheConfiguration(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(root, "bin", "guest", "containerd.tgz")
	if _, err := os.Stat(archive); err != nil {
		t.Skip("make guest compiles containerd")
	}
	folder := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", folder, "bin/containerd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	config := filepath.Join(folder, "config.toml")
	if err := os.WriteFile(config, []byte(writtenConfig(t, root)), 0o600); err != nil {
		t.Fatal(err)
	}
	converted, err := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "containerd"), "--config", config, "config", "migrate").Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(converted)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	if slices.Contains(lines, "version = 2") {
		t.Error("containerd did not convert the configuration")
	}
	for _, want := range []string{
		"sandbox = 'registry.k8s.io/pause:3.10.1'", "config_path = '/etc/containerd/certs.d'", "default_runtime_name = 'runc'",
		"SystemdCgroup = true", "bin_dirs = ['/opt/cni/bin']", "conf_dir = '/etc/cni/net.d'",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not in the converted configuration:\n%s", want, converted)
		}
	}
}

// writtenConfig is containerd's configuration in the golden user data for Ubuntu.
func writtenConfig(t *testing.T, root string) string {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join(root, "bootstrap", "internal", "render", "testdata", "ubuntu.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Files []struct {
			Path    string `json:"path"`
			Content string `json:"content"`
		} `json:"write_files"`
	}
	if err := yaml.Unmarshal(golden, &data); err != nil {
		t.Fatal(err)
	}
	for _, file := range data.Files {
		if file.Path == "/etc/containerd/config.toml" {
			return file.Content
		}
	}
	t.Fatal("the user data has no configuration of containerd")
	return ""
}
