// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes what users install: container images with their software bills of materials, manifests, a
// repository for clusterctl, a Helm chart, checksums and signatures. It runs no container engine and, once the Go modules
// are on the machine, needs no network but for push.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newCommand()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "release",
		Short:         "Make, push, sign and verify a release",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.SetFlagErrorFunc(func(failed *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, failed.CommandPath())
	})
	command.AddCommand(allCommand(), imagesCommand(), clusterctlConfigCommand(), pluginCommand(), pushCommand(), signCommand(), verifyCommand())
	return command
}
