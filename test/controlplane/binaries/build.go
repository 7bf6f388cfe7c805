// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// target is the source of a program.
type target struct {
	name    string
	module  string
	command string
	// static programs run on any Linux, whatever its C library.
	static bool
}

// targets lists every program that Build can make.
func targets() []target {
	return []target{
		{name: Etcd, module: "go.etcd.io/etcd/server/v3", command: "go.etcd.io/etcd/server/v3"},
		{name: APIServer, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kube-apiserver"},
		{name: ControllerManager, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{name: Scheduler, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kube-scheduler"},
		{name: Kubectl, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kubectl"},
		{name: Kubelet, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kubelet", static: true},
		{name: Kubeadm, module: "k8s.io/kubernetes", command: "k8s.io/kubernetes/cmd/kubeadm", static: true},
	}
}

// Build compiles the named programs into bin/k8s of the repository at root,
// skipping those that are up to date, and reports on w. A program is replaced
// in one step, so a control plane that is running is not disturbed. Builds
// that run at the same time wait for each other.
func Build(ctx context.Context, root string, names []string, w *os.File) error {
	wanted, err := choose(names)
	if err != nil {
		return err
	}
	out := Out(root)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the output directory: %w", err)
	}
	b := &builder{module: filepath.Join(root, filepath.FromSlash(moduleDir)), out: out, progress: newProgress(w)}
	unlock, err := lock(ctx, out, b.progress)
	if err != nil {
		return err
	}
	defer unlock()

	stale, err := b.stale(ctx, wanted)
	if err != nil {
		return err
	}
	if len(stale) == 0 {
		b.progress.say("%s is up to date\n", out)
		return nil
	}
	for i, t := range stale {
		if err := b.build(ctx, t, fmt.Sprintf("%d/%d", i+1, len(stale))); err != nil {
			return fmt.Errorf("compiling %s: %w", t.name, err)
		}
	}
	return nil
}

// choose returns the targets called names.
func choose(names []string) ([]target, error) {
	known := map[string]target{}
	var all []string
	for _, t := range targets() {
		known[t.name] = t
		all = append(all, t.name)
	}
	var chosen []target
	for _, name := range names {
		t, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("no program is called %q: choose from %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// builder compiles targets, one after the other.
type builder struct {
	module   string
	out      string
	progress *progress
}

// stale returns the targets whose program is missing or was built from
// something else, with their stamps.
func (b *builder) stale(ctx context.Context, wanted []target) ([]stampedTarget, error) {
	inputs, err := b.inputs(ctx)
	if err != nil {
		return nil, err
	}
	var stale []stampedTarget
	for _, t := range wanted {
		s := stampedTarget{target: t, stamp: stamp(inputs, t)}
		if !s.current(b.out) {
			stale = append(stale, s)
		}
	}
	return stale, nil
}

// build compiles t beside its final place, moves it there and records its
// stamp last: whatever stops it half-way leaves a stale stamp, not a wrong one.
func (b *builder) build(ctx context.Context, t stampedTarget, count string) error {
	m, err := b.moduleInfo(ctx, t.module)
	if err != nil {
		return err
	}
	final := filepath.Join(b.out, t.name)
	partial := filepath.Join(b.out, "."+t.name+".partial")
	defer os.Remove(partial) //nolint:errcheck // gone already when all went well

	b.progress.begin(fmt.Sprintf("compiling %s %s (%s)", t.name, m.Version, count))
	err = b.compile(ctx, partial, m.ldflags(), t.target)
	b.progress.end(err == nil, fmt.Sprintf("compiled %s %s", t.name, m.Version))
	if err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	return t.record(b.out)
}

// compile runs the compiler and shows what it is at. It leaves -trimpath and
// CGO_ENABLED alone unless the program leaves this machine: with the defaults the
// standard library and every package that the rest of the repository uses too are
// compiled once.
func (b *builder) compile(ctx context.Context, out, ldflags string, t target) error {
	cmd := b.goCommand(ctx, "build", "-v", "-buildvcs=false", "-ldflags", ldflags, "-o", out, t.command)
	if t.static {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	complaints := b.follow(stderr)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w\n%s", err, strings.Join(complaints, "\n"))
	}
	return nil
}

// follow passes what the compiler is at to the progress line and returns
// the rest of its output.
func (b *builder) follow(r io.Reader) []string {
	var complaints []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			b.progress.note(strings.TrimPrefix(line, "go: "))
		case !strings.ContainsAny(line, " \t"):
			b.progress.note(line)
		default:
			complaints = append(complaints, line)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line beyond the scanner's limit must not block the compiler
	return complaints
}

// goCommand prepares a go command in the module of the programs, outside any
// workspace.
func (b *builder) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// lock makes builds of the same directory wait for each other.
func lock(ctx context.Context, dir string, p *progress) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
		if !waiting {
			p.say("waiting for another build of %s\n", dir)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
