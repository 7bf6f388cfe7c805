// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-drover is a plugin of kubectl: `kubectl drover why machine/NAME` and others answer what is wrong with nodes,
// since when, and what to do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"drover.io/kubectl-drover/internal/command"
)

func main() {
	// Libraries log failures that the commands report themselves, in one line.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, command.Environment{
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Now:     time.Now,
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
