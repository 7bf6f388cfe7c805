// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command vsphere is the infrastructure provider of VMware vSphere. It runs the controllers for
// VSphereMachines and VSphereMachineTemplates.
package main

import (
	"context"
	"errors"
	"time"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
	"drover.io/runtime/manager"
)

// logoutTimeout bounds how long logging out may take.
const logoutTimeout = 10 * time.Second

func main() { manager.Main("infra-vsphere", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-vsphere", args, nil)
	if err != nil {
		return err
	}
	sessions := &vcenter.Pool{}
	err = provider.Run(ctx, vsphere.Cloud(sessions), options)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	return errors.Join(err, sessions.Close(closing))
}
