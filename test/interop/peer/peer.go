// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package peer owns Cluster API's own programs as neighbours of ours: it compiles them from
// their Go modules into bin/upstream, installs what they ship (kinds, permissions, webhooks)
// on a management cluster of package framework and runs them there under the ServiceAccounts that
// they ship. What they are to do together with our managers is the caller's business. The
// versions are pinned in test/interop/upstream/go.mod.
package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Names of upstream's programs in bin/upstream.
const (
	Core       = "core"
	Kubeadm    = "kubeadm-bootstrap"
	InMemory   = "in-memory"
	Clusterctl = "clusterctl"
	kustomize  = "kustomize"
)

// moduleDir holds the go.mod that pins the programs, relative to the root of the repository.
const moduleDir = "test/interop/upstream"

// ldflags give the programs a version. A module carries no commit, so none is claimed.
const ldflags = "-s -w" +
	" -X sigs.k8s.io/cluster-api/version.gitVersion=%[1]s" +
	" -X sigs.k8s.io/cluster-api/version.gitMajor=%[2]s" +
	" -X sigs.k8s.io/cluster-api/version.gitMinor=%[3]s" +
	" -X sigs.k8s.io/cluster-api/version.gitTreeState=clean"

const coreModule = "sigs.k8s.io/cluster-api"

// program is the source of a program and, for a manager, its arguments.
type program struct {
	name, module, command string
	// config is the folder in the module with the manifests of a manager; empty for a tool.
	config string
	// args and env are what a manager needs beyond what all need.
	args, env []string
}

// programs lists everything that Build makes. Without a MachinePool controller beside them
// upstream's providers must not watch MachinePools.
func programs() []program {
	return []program{
		{name: kustomize, module: "sigs.k8s.io/kustomize/kustomize/v5", command: "sigs.k8s.io/kustomize/kustomize/v5"},
		{name: Clusterctl, module: coreModule, command: "sigs.k8s.io/cluster-api/cmd/clusterctl"},
		{name: Core, module: coreModule, command: "sigs.k8s.io/cluster-api/core", config: "core/config/default"},
		{
			name: Kubeadm, module: coreModule, command: "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
			config: "bootstrap/kubeadm/config/default", args: []string{"--feature-gates=MachinePool=false"},
		},
		{
			name: InMemory, module: "sigs.k8s.io/cluster-api/test", command: "sigs.k8s.io/cluster-api/test/infrastructure/docker",
			config: "infrastructure/docker/config/default", args: []string{"--feature-gates=MachinePool=false"},
			env: []string{"POD_IP=127.0.0.1"},
		},
	}
}

// Peers are upstream's programs, compiled.
type Peers struct {
	// NewestOnly leaves the older versions of upstream's kinds and their conversion out of what
	// is installed, which spares upstream a conversion at every change.
	NewestOnly bool

	root string
}

// Build compiles the programs of the given names, or all, for the repository at root, one after
// the other, unless they are up to date, and reports each.
func Build(ctx context.Context, root string, logf func(string), names ...string) (*Peers, error) {
	p := &Peers{root: root}
	version, err := p.list(ctx, "{{.Version}}", coreModule)
	if err != nil {
		return nil, err
	}
	numbers := append(strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3), "", "")
	flags := fmt.Sprintf(ldflags, version, numbers[0], numbers[1])
	for _, each := range programs() {
		if len(names) > 0 && each.name != kustomize && !slices.Contains(names, each.name) {
			continue
		}
		logf("compiling " + each.name)
		if _, err := p.run(ctx, "build", "-buildvcs=false", "-ldflags", flags, "-o", p.Path(each.name), each.command); err != nil {
			return nil, fmt.Errorf("compiling %s: %w", each.name, err)
		}
	}
	return p, nil
}

// Path is where a program is.
func (p *Peers) Path(name string) string { return filepath.Join(p.root, "bin", "upstream", name) }

// list returns what the go command lists about a module.
func (p *Peers) list(ctx context.Context, format, module string) (string, error) {
	out, err := p.run(ctx, "list", "-m", "-f", format, module)
	return strings.TrimSpace(out), err
}

// run runs the go command in the module of the programs, outside any workspace.
func (p *Peers) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(p.root, filepath.FromSlash(moduleDir))
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return output(cmd)
}

// output is what a command prints; an error carries what it complained about.
func output(cmd *exec.Cmd) (string, error) {
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %q: %w\n%s", strings.Join(cmd.Args, " "), err, complaint.String())
	}
	return out.String(), nil
}
