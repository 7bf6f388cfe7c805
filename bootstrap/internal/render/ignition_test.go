// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

// apply has the real Ignition write a configuration to a root directory, and returns that directory.
func apply(t *testing.T, in node.Input) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "ignition"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("Ignition is not built: run bootstrap/hack/ignition.sh")
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: Ignition gives files to their owners")
	}
	data, _, err := render.Data(in)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	root, config := filepath.Join(scratch, "root"), filepath.Join(scratch, "config.ign")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []string{"fetch", "files"} {
		command := exec.CommandContext(t.Context(), program, "-root", root, "-stage", stage, "-platform", "file", "-log-to-stdout",
			"-config-cache", filepath.Join(scratch, "cache"), "-state-file", filepath.Join(scratch, "state"), "-neednet", filepath.Join(scratch, "neednet"))
		command.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+config)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("stage %s: %v\n%s", stage, err, out)
		}
	}
	return root
}

func TestIgnitionWritesTheFiles(t *testing.T) {
	t.Parallel()
	everything := cases()["flatcar-all"]
	everything.Spec.Users = nil // useradd needs a whole distribution below the root directory
	everything.Spec.Files[1].Owner = ""
	manyLabels := cases()["flatcar"]
	manyLabels.Spec.Kubelet.NodeLabels = map[string]string{}
	for i := range 40 {
		manyLabels.Spec.Kubelet.NodeLabels[fmt.Sprintf("topology.example.test/label-%02d", i)] = strings.Repeat("v", 60)
	}
	for name, in := range map[string]node.Input{
		"flatcar": cases()["flatcar"], "flatcar-metadata": cases()["flatcar-metadata"], "flatcar with everything": everything, "flatcar with many labels": manyLabels,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := apply(t, in)
			described, err := node.Describe(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range described.AllFiles() {
				assertWritten(t, root, f)
			}
			for _, u := range described.Units {
				if u.Content != "" {
					assertWritten(t, root, node.File{Path: "/etc/systemd/system/" + u.Name, Mode: 0o644, Content: []byte(u.Content)})
				}
				for _, d := range u.DropIns {
					assertWritten(t, root, node.File{Path: "/etc/systemd/system/" + u.Name + ".d/" + d.Name, Mode: 0o644, Content: []byte(d.Content)})
				}
			}
			preset, err := os.ReadFile(filepath.Join(root, "etc/systemd/system-preset/20-ignition.preset"))
			if err != nil || strings.TrimSpace(string(preset)) != "enable drover-bootstrap.service" {
				t.Errorf("units that start at boot: %q, %v; want drover-bootstrap.service alone", preset, err)
			}
		})
	}
}

func assertWritten(t *testing.T, root string, want node.File) {
	t.Helper()
	info, err := os.Stat(filepath.Join(root, want.Path))
	if err != nil {
		t.Error(err)
		return
	}
	if info.Mode().Perm() != want.Mode {
		t.Errorf("%s has mode %04o, want %04o", want.Path, info.Mode().Perm(), want.Mode)
	}
	got, err := os.ReadFile(filepath.Join(root, want.Path))
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(string(want.Content), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want.Path, diff)
	}
}
