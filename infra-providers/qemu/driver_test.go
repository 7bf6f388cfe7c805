// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/standin"
)

func TestMain(m *testing.M) {
	standin.Main()
	code := m.Run()
	if cluster != nil {
		_ = cluster.Stop()
	}
	os.Exit(code)
}

const hostName = "lab-1"

// TestConformance runs every rule against processes of the real QEMU where it is installed, and against the
// stand-in's otherwise.
func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.World[qemu.Config] {
		machines := open(t, places(t, realQEMU()))
		missing := config(t, small())
		missing.Image.Path = "nowhere.raw"
		unbridged := config(t, small())
		unbridged.Bridge = "nobridge0"
		return drivertest.World[qemu.Config]{
			Driver:    connect(t, machines),
			Config:    config(t, small()),
			Invalid:   map[string]qemu.Config{"no such bridge": unbridged},
			NoImage:   map[string]qemu.Config{"no such image": missing},
			ImageOf:   func(made driver.Instance) string { return booted(machines, made) },
			Reconnect: func() driver.Driver[qemu.Config] { return connect(t, machines) },
			Leftovers: func() []string { return leftovers(machines) },
		}
	})
}

func realQEMU() bool {
	for _, name := range []string{"qemu-system-x86_64", "qemu-img"} {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// places are folders for a host with one image that boots nothing. Their paths are short enough for a socket.
func places(t *testing.T, real bool) host.Options {
	t.Helper()
	folder, err := os.MkdirTemp("", "drover-qemu-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	options := host.Options{StateDir: filepath.Join(folder, "state"), ImageDir: folder}
	if err := os.WriteFile(filepath.Join(folder, "empty.raw"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if !real {
		options.Programs = folder
		if err := standin.Programs(folder); err != nil {
			t.Fatal(err)
		}
	}
	return options
}

// open opens a host and, when the test ends, deletes whatever it still has.
func open(t *testing.T, options host.Options) *host.Host {
	t.Helper()
	machines, err := host.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, machines) })
	return machines
}

// finish deletes whatever a host has and closes it.
func finish(t *testing.T, machines *host.Host) {
	t.Helper()
	for _, m := range machines.List() {
		if err := machines.Delete(m.ID); err != nil {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(4 * time.Minute); len(machines.List()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("left: %+v", machines.List())
			break
		}
	}
	if err := machines.Close(); err != nil {
		t.Error(err)
	}
}

func booted(machines *host.Host, made driver.Instance) string {
	known, _ := machines.Get(made.ID)
	return known.Image.Path
}

func leftovers(machines *host.Host) (left []string) {
	for _, m := range machines.List() {
		left = append(left, m.ID)
	}
	return left
}

func small() *infrav1.QEMUMachine {
	return &infrav1.QEMUMachine{Spec: infrav1.QEMUMachineSpec{
		Acceleration:               infrav1.QEMUAccelerationTCG,
		CPUs:                       ptr.To[int32](1),
		Memory:                     quantity("64Mi"),
		Image:                      infrav1.QEMUImage{QEMUFile: infrav1.QEMUFile{Path: "empty.raw"}, Format: "raw"},
		ShutdownGracePeriodSeconds: ptr.To[int32](0),
	}}
}

func connect(t *testing.T, machines *host.Host) driver.Driver[qemu.Config] {
	t.Helper()
	connected, err := qemu.Cloud(machines, hostName).Connect(t.Context(), driver.Account{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func config(t *testing.T, machine *infrav1.QEMUMachine) qemu.Config {
	t.Helper()
	config, err := qemu.NewConfig(machine, "", hostName)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
