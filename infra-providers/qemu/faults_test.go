// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"slices"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
)

// TestFaultInjection creates and deletes machines as processes of the fake. A restart of the reconciler restarts the
// provider: the host is closed and opened again while its machines run, start or end.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.QEMUMachine, qemu.InstanceConfig] {
		h := &restartableHost{t: t, options: newOptions(t, false)}
		var err error
		if h.machines, err = host.Open(h.options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { deleteAll(t, h.machines) })
		description := qemu.Cloud(h.machines, hostName)
		description.Connect = func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[qemu.InstanceConfig], error) {
			return qemu.Cloud(h.reopen(), hostName).Connect(ctx, account, credentials)
		}
		return faulttest.Environment[*infrav1.QEMUMachine, qemu.InstanceConfig]{
			Cloud:   description,
			Machine: newMachine,
			Hooks: drivertest.Environment[qemu.InstanceConfig]{
				Driver:    currentDriver{connect(t, h.machines), h},
				Leftovers: func() []string { return leftovers(h.machines) },
			},
			Pass: func(time.Duration) {
				if random.UpTo(3) == 0 {
					h.awaitStable()
				}
			},
		}
	})
}

// restartableHost is a host that restarts.
type restartableHost struct {
	t        *testing.T
	options  host.Options
	machines *host.Host
}

// reopen restarts the provider.
func (h *restartableHost) reopen() *host.Host {
	h.t.Helper()
	if err := h.machines.Close(); err != nil {
		h.t.Fatal(err)
	}
	machines, err := host.Open(h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	h.machines = machines
	return machines
}

// awaitStable waits until no machine starts or is deleted, which takes processes real time.
func (h *restartableHost) awaitStable() {
	h.t.Helper()
	busy := func(m host.Machine) bool { return m.Phase == host.Starting || m.Phase == host.Deleting }
	for deadline := time.Now().Add(4 * time.Minute); slices.ContainsFunc(h.machines.List(), busy); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("machines are still starting or being deleted: %+v", h.machines.List())
		}
	}
}

// currentDriver is the driver of the host that is open.
type currentDriver struct {
	driver.Driver[qemu.InstanceConfig]
	host *restartableHost
}

func (c currentDriver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	return connect(c.host.t, c.host.machines).Get(ctx, id)
}

func (c currentDriver) Restart(ctx context.Context, id driver.Identity) error {
	return connect(c.host.t, c.host.machines).(driver.Restarter).Restart(ctx, id)
}
