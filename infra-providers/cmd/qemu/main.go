// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command qemu is the infrastructure provider for virtual machines on the host that it runs on. The machines run
// on when it ends; started again, it takes them over.
package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "qemu:", err)
		os.Exit(1)
	}
}

// word is what a host's name may be, as it becomes a part of provider IDs.
var word = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

func run() error {
	options := provider.AddFlags(pflag.CommandLine)
	places := host.Options{}
	ownName, err := os.Hostname()
	if err != nil {
		return err
	}
	pflag.StringVar(&places.StateDir, "state-dir", "/var/lib/drover-qemu", "folder that keeps the machines over restarts")
	pflag.StringVar(&places.ImageDir, "image-dir", "/var/lib/drover-qemu/images", "folder that paths of images, kernels and firmware are in")
	hostName := pflag.String("host-name", ownName, "name of this host in provider IDs and as a failure domain; it must never change")
	pflag.Parse()
	ctrl.SetLogger(options.Logger())
	if !word.MatchString(*hostName) {
		return fmt.Errorf("--host-name: %q may only have letters, digits, dots and dashes", *hostName)
	}
	machines, err := host.Open(places)
	if err != nil {
		return err
	}
	err = provider.Run(ctrl.SetupSignalHandler(), qemu.Cloud(machines, *hostName), options)
	return errors.Join(err, machines.Close())
}
