// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
)

// installSection matches the section "Install" of the README, codeBlock a block of commands in it.
var (
	installSection = regexp.MustCompile(`(?s)\n## Install\n(.*?)\n## `)
	codeBlock      = regexp.MustCompile("(?s)```\n(.*?)```")
)

// TestInstallSectionOfTheREADME runs the commands of the section as they are written there, with kubectl, in a folder that
// has the release under dist. The commands that make the release and push its images have been run in its place.
func TestInstallSectionOfTheREADME(t *testing.T) {
	t.Parallel()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := installSection.FindSubmatch(readme)
	if section == nil {
		t.Fatal("the README has no section Install")
	}
	var script []string
	for _, block := range codeBlock.FindAllSubmatch(section[1], -1) {
		if commands := string(block[1]); !strings.HasPrefix(commands, "make release VERSION="+version) {
			script = append(script, commands)
		}
	}
	if len(script) == 0 {
		t.Fatal("the section Install has no commands")
	}

	plane, c := start(t)
	folder := t.TempDir()
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, plane.AdminKubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "dist"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(made[version], filepath.Join(folder, "dist", version)); err != nil {
		t.Fatal(err)
	}
	programs, err := binaries.Dir()
	if err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(script, "\n"))
	shell.Dir = folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+folder, "PATH="+programs+":"+os.Getenv("PATH"))
	output, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, name := range []string{"drover-machine-controller", "drover-bootstrap", "drover-infra-aws"} {
		if !strings.Contains(string(output), "\n"+name+" ") {
			t.Errorf("the list has no Deployment %s:\n%s", name, output)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "machinedeployments.cluster.x-k8s.io"}, crdNamed("")); err != nil {
		t.Errorf("the kinds are not installed: %v", err)
	}
}
