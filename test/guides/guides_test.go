// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package guides runs the commands of the guides exactly as they are written, one guide after
// the other, on the cluster that the tutorial leaves behind. A command that fails fails the
// test. The text around the commands is not tested.
package guides

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

// guideTime bounds a guide; it does not measure how long one takes.
const guideTime = 8 * time.Minute

func TestGuides(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	stack, err := framework.Start(t.Context(), framework.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	flow := &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}
	if err := flow.Create(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(),
		"KUBECONFIG="+stack.Kubeconfig("management"),
		"PATH="+strings.Join([]string{filepath.Join(root, "bin", "k8s"), buildPlugin(t, root), os.Getenv("PATH")}, string(os.PathListSeparator)),
	)
	for _, guide := range []string{"guides/autoscaling", "guides/budgets", "guides/freeze", "guides/rollback", "reference/kubectl-drover"} {
		t.Run(guide, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), guideTime)
			defer cancel()
			if err := flow.AwaitRunning(ctx, 3); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(root, "docs", guide+".md"))
			if err != nil {
				t.Fatal(err)
			}
			blocks := commands(string(text))
			if len(blocks) == 0 {
				t.Fatal("it has no commands")
			}
			for _, block := range blocks {
				cmd := exec.CommandContext(ctx, "bash", "-euc", block)
				cmd.Env = environment
				out, err := cmd.CombinedOutput()
				t.Logf("%s\n%s", block, out)
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// buildPlugin compiles kubectl-drover into a folder, which it returns.
func buildPlugin(t *testing.T, root string) string {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "kubectl-drover"), ".")
	build.Dir = filepath.Join(root, "kubectl-drover")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building kubectl-drover: %v\n%s", err, out)
	}
	return folder
}

// commands are the blocks of a guide that have no language of their own.
func commands(text string) []string {
	var blocks []string
	for i, part := range strings.Split("\n"+text, "\n```") {
		if block, ok := strings.CutPrefix(part, "\n"); ok && i%2 == 1 {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
