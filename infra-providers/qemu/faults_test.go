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

// TestFaultInjection takes machines through their lives as processes of the stand-in. A restart of the reconciler is
// one of the provider: the host is closed and opened again while its machines run on, start or end.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, func(t *testing.T, dice *faulttest.Rand) faulttest.World[*infrav1.QEMUMachine, qemu.Config] {
		h := &hosted{t: t, options: places(t, false)}
		var err error
		if h.machines, err = host.Open(h.options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { finish(t, h.machines) })
		described := qemu.Cloud(h.machines, hostName)
		described.Connect = func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[qemu.Config], error) {
			return qemu.Cloud(h.reopen(), hostName).Connect(ctx, account, credentials)
		}
		return faulttest.World[*infrav1.QEMUMachine, qemu.Config]{
			Cloud:   described,
			Machine: small,
			Hooks: drivertest.World[qemu.Config]{
				Driver:    current{connect(t, h.machines), h},
				Leftovers: func() []string { return leftovers(h.machines) },
			},
			Pass: func(time.Duration) {
				if dice.UpTo(3) == 0 {
					h.settle()
				}
			},
		}
	})
}

// hosted is a host that restarts.
type hosted struct {
	t        *testing.T
	options  host.Options
	machines *host.Host
}

// reopen ends the provider and starts it again.
func (h *hosted) reopen() *host.Host {
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

// settle waits until no machine starts or ends, which takes processes real time.
func (h *hosted) settle() {
	h.t.Helper()
	busy := func(m host.Machine) bool { return m.Phase == host.Starting || m.Phase == host.Ending }
	for deadline := time.Now().Add(4 * time.Minute); slices.ContainsFunc(h.machines.List(), busy); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("they do not settle: %+v", h.machines.List())
		}
	}
}

// current asks the host that is open now.
type current struct {
	driver.Driver[qemu.Config]
	host *hosted
}

func (c current) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	return connect(c.host.t, c.host.machines).Get(ctx, id)
}

func (c current) Restart(ctx context.Context, id driver.Identity) error {
	return connect(c.host.t, c.host.machines).(driver.Restarter).Restart(ctx, id)
}
