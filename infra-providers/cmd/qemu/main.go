// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command qemu is the infrastructure provider for virtual machines on the host that it runs on. It runs the
// controllers for QEMUMachines and QEMUMachineTemplates. The machines run on when it ends; started again, it takes them over.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/image"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-qemu", run) }

// word is what a host's name may be, as it becomes a part of provider IDs.
var word = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// leastImage is less than any image has; a smaller number was meant in another unit than bytes.
const leastImage = 1 << 20

func run(ctx context.Context, args []string) error {
	places, maxSize := host.Options{}, ""
	hostName, err := os.Hostname()
	if err != nil {
		return err
	}
	options, err := provider.Parse("infra-qemu", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&places.StateDir, "state-dir", "/var/lib/drover-qemu", "folder that keeps the machines over restarts")
		flags.StringVar(&places.ImageDir, "image-dir", "/var/lib/drover-qemu/images", "folder that paths of images, kernels and firmware are in")
		flags.StringVar(&maxSize, "image-max-size", "64Gi", "size that a downloaded image, kernel or firmware may have at most")
		flags.DurationVar(&places.ImageLimits.Time, "image-download-timeout", image.DefaultLimits.Time, "how long one download may take at most")
		flags.StringVar(&hostName, "host-name", hostName, "name of this host in provider IDs and as a failure domain; it must never change")
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(flagcheck.Folder("--state-dir", places.StateDir), flagcheck.Folder("--image-dir", places.ImageDir)); err != nil {
		return err
	}
	if !word.MatchString(hostName) {
		return fmt.Errorf("--host-name must have letters, digits, inner dots and dashes only, not %q", hostName)
	}
	size, err := resource.ParseQuantity(maxSize)
	if err != nil || size.Value() < leastImage {
		return fmt.Errorf("--image-max-size must be a size such as 64Gi, at least 1Mi, not %q", maxSize)
	}
	if err := flagcheck.AtLeast("--image-download-timeout", places.ImageLimits.Time, time.Second); err != nil {
		return err
	}
	places.ImageLimits.Bytes = size.Value()
	places.Logger = ctrl.Log
	machines, err := host.Open(places)
	if err != nil {
		return err
	}
	err = provider.Run(ctx, qemu.Cloud(machines, hostName), options)
	return errors.Join(err, machines.Close())
}
