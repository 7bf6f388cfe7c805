// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package guides runs the commands of the documentation as they are written, one page after the other, on the cluster that
// the tutorial leaves behind. A command that fails fails the test. Each other block of commands has the reason for which it
// is not run. The text around the commands is not tested, but its links and the tests and flags that it names are.
package guides

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

// guideTime bounds a guide; it does not measure how long one takes.
const guideTime = 10 * time.Minute

func TestGuides(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	stack, err := framework.Start(t.Context(), framework.Options{EveryCloud: true})
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
	runner := newRunner(t, root, stack)
	t.Run("objects", func(t *testing.T) {
		for _, name := range documents(t, root) {
			runner.validate(t, name)
		}
	})
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), guideTime)
			defer cancel()
			if err := flow.AwaitRunning(ctx, 3); err != nil {
				t.Fatal(err)
			}
			runner.follow(ctx, t, page)
		})
	}
}

// runner runs commands in a folder that has what the reader of a page has: the repository, both kubeconfigs and the logs.
type runner struct {
	root, folder string
	management   client.Client
	environment  []string
}

func newRunner(t *testing.T, root string, stack *framework.Stack) *runner {
	t.Helper()
	folder := t.TempDir()
	paths := map[string]string{
		"management.kubeconfig": stack.Kubeconfig("management"),
		"workload.kubeconfig":   stack.Kubeconfig("workload"),
		"machine-controller":    filepath.Join(root, "machine-controller"),
		"bootstrap":             filepath.Join(root, "bootstrap"),
	}
	for _, manager := range stack.Managers() {
		paths[manager.Name+".log"] = manager.Log
	}
	for name, path := range paths {
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	host, port := stack.Workload.Endpoint()
	return &runner{root: root, folder: folder, management: stack.ManagementClient, environment: append(os.Environ(),
		"KUBECONFIG="+stack.Kubeconfig("management"), "KUBE_EDITOR=true", "HOST="+host, fmt.Sprintf("PORT=%d", port),
		"PATH="+strings.Join([]string{filepath.Join(root, "bin", "k8s"), buildPlugin(t, root), os.Getenv("PATH")}, string(os.PathListSeparator)),
	)}
}

// follow does what a page, or each page of a folder, has its reader do.
func (r *runner) follow(ctx context.Context, t *testing.T, p page) {
	t.Helper()
	var machines clusterv1.MachineList
	if err := r.management.List(ctx, &machines, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	r.environment = append(r.environment, "MACHINE="+machines.Items[0].Name)
	r.run(ctx, t, p.before)
	ran := 0
	for _, name := range documents(t, r.root) {
		if name != p.name && !strings.HasPrefix(name, p.name+"/") {
			continue
		}
		for _, b := range blocks(text(t, filepath.Join(r.root, "docs", name+".md"))) {
			written := strings.NewReplacer(p.replace...).Replace(b.text)
			switch {
			case b.commands():
				r.run(ctx, t, written)
				ran++
			case slices.ContainsFunc(p.objects, func(kind string) bool { return strings.Contains(b.text, "\nkind: "+kind+"\n") }):
				r.run(ctx, t, "kubectl apply -f - <<OBJECTS\n"+written+"OBJECTS")
			}
		}
	}
	if ran == 0 {
		t.Error("it has no commands")
	}
	r.run(ctx, t, p.after)
}

func (r *runner) run(ctx context.Context, t *testing.T, commands string) {
	t.Helper()
	if commands == "" {
		return
	}
	cmd := exec.CommandContext(ctx, "bash", "-euc", commands)
	cmd.Dir, cmd.Env = r.folder, r.environment
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", commands, out)
	if err != nil {
		t.Fatal(err)
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
