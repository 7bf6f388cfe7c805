// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command interop proves that Drover and Cluster API understand each other: it runs every
// mixture of our core and upstream's, our simulated cloud and upstream's in-memory provider,
// our bootstrap and upstream's kubeadm bootstrap on real control planes, then upstream's
// clusterctl against ours, and prints one line for each. It exits non-zero if one ended
// differently from docs/reference/interop.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/interop/peer"
)

func main() {
	only := pflag.String("only", "", "run only what has a name that matches this regular expression")
	keep := pflag.String("keep", "", "keep logs and kubeconfigs in this folder")
	timeout := pflag.Duration("timeout", 3*time.Minute, "how long one of them may take")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, runOptions{keep: *keep, timeout: *timeout}); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, how runOptions) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	chosen := slices.DeleteFunc(combinations(), func(t combination) bool { return !wanted.MatchString(t.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("--only %q matches none of %q", only, names(combinations()))
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	peers, err := peer.Build(ctx, root, func(step string) { fmt.Println(step) }, needs(chosen)...)
	if err != nil {
		return err
	}
	failed := 0
	for _, t := range chosen {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		line, ok := t.runReported(ctx, peers, how)
		fmt.Println(line)
		if !ok {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d ended otherwise than expected", failed)
	}
	return nil
}

func names(all []combination) []string {
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	return names
}

// needs names upstream's programs that take part.
func needs(all []combination) []string {
	var programs []string
	for _, t := range all {
		programs = append(programs, t.cell.UpstreamParts()...)
		if strings.HasPrefix(t.name, peer.Clusterctl) {
			programs = append(programs, peer.Clusterctl)
		}
	}
	return programs
}
