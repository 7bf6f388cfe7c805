// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command e2e installs releases of Drover as users do, on a cluster whose node runs their Pods: kubelet, containerd and
// runc in a container of systemd, beside a control plane with kube-scheduler. The images and the chart are those that the
// release module writes, the namespace enforces the restricted Pod Security Standard, and the machines are simulated.
// It prints what it measures, and exits non-zero with the reason if a scenario fails or if something is left at the end.
// It needs root, systemd-nspawn and what `make e2e-install` builds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/test/controlplane/binaries"
)

func main() {
	o := options{}
	pflag.StringVar(&o.before, "before", "", "git revision of the release that is upgraded; by default the one that is tested, with another version")
	pflag.StringVar(&o.keep, "keep", "", "keep releases, logs and kubeconfigs in this folder, which must be empty or absent")
	pflag.BoolVar(&o.qemu, "qemu", false, "boot a virtual machine under QEMU too, which takes minutes where its processor is emulated")
	pflag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long all scenarios may take")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-install:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	before, keep string
	qemu         bool
	timeout      time.Duration
}

// began is when the program started.
var began = time.Now()

// step prints what happened.
func step(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, o options) (err error) {
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the API server's warnings to Helm
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	if err := requirements(root, o); err != nil {
		return err
	}
	dir, remove, err := folder(o.keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	before, now, err := makeReleases(ctx, root, dir, o.before)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	s, err := startEnvironment(ctx, root, dir, before, now)
	defer func() {
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			s.explain()
		}
		step("stopping every process")
		err = errors.Join(err, s.stop())
	}()
	if err != nil {
		return err
	}
	for _, scenario := range scenarios(o) {
		step("scenario: %s", scenario.title)
		if err := scenario.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", scenario.title, err)
		}
	}
	step("all scenarios passed")
	return nil
}

// scenario is one of the things that users do. Each but the second and third begins without an installation.
type scenario struct {
	title string
	run   func(context.Context, *environment) error
}

func scenarios(o options) []scenario {
	all := []scenario{
		{"a fresh installation", freshInstallation},
		{"a crash of the leader during a rollout", leaderCrash},
		{"removal", removal},
		{"an upgrade with machines running", upgrade},
	}
	if o.qemu {
		all = append(all, scenario{"a virtual machine", virtualMachine})
	}
	return all
}

// folder returns where everything is written, and what removes it.
func folder(keep string) (string, func() error, error) {
	if keep == "" {
		dir, err := os.MkdirTemp("", "drover-e2e-install-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	dir, err := filepath.Abs(keep)
	if err != nil {
		return "", nil, err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", nil, fmt.Errorf("--keep: %s is not empty", dir)
	}
	return dir, func() error { return nil }, os.MkdirAll(dir, 0o755)
}
