// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command build compiles the programs of a Kubernetes control plane into
// bin/k8s of this repository; `make control-plane` runs it. Arguments name the
// programs, by default the three that a control plane needs; kube-scheduler, kubectl and
// a static kubelet and kubeadm are optional. Where KUBEBUILDER_ASSETS is set it compiles
// nothing and checks that the programs are there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"drover.io/test/controlplane/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted: what is compiled so far is kept, run it again to go on")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run builds the named programs, or checks those that the user brought.
func run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = binaries.Required()
	}
	if dir := binaries.Assets(); dir != "" {
		if err := binaries.CheckAssets(dir, names); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "using the programs in %s=%s\n", binaries.AssetsVariable, dir)
		return nil
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	return binaries.Build(ctx, root, names, os.Stderr)
}
