// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/qemufake"
)

func TestMain(m *testing.M) {
	qemufake.Main()
	os.Exit(shared.Main(m))
}

const hostName = "lab-1"

// TestConformance runs the suite with processes of QEMU if it is installed, and otherwise with those of the fake.
func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[qemu.InstanceConfig] {
		machines := openHost(t, newOptions(t, realQEMU()))
		missing := newConfig(t, newMachine())
		missing.Image.Path = "none.raw"
		unbridged := newConfig(t, newMachine())
		unbridged.Bridge = "nobridge0"
		return drivertest.Environment[qemu.InstanceConfig]{
			Driver:              connect(t, machines),
			NormalizeProviderID: qemu.Cloud(machines, hostName).NormalizeProviderID,
			Config:              newConfig(t, newMachine()),
			Invalid:             map[string]qemu.InstanceConfig{"no such bridge": unbridged},
			NoImage:             map[string]qemu.InstanceConfig{"no such image": missing},
			ImageOf:             func(created driver.Instance) string { return imageOf(machines, created) },
			Reconnect:           func() driver.Driver[qemu.InstanceConfig] { return connect(t, machines) },
			Leftovers:           func() []string { return leftovers(machines) },
			Write:               func(created driver.Instance, output string) { write(t, machines.Console(created.ID), output) },
		}
	})
}

// write appends to the console of a machine, as its guest would.
func write(t *testing.T, console, output string) {
	t.Helper()
	if err := statedir.AppendBounded(console, []byte(output), driver.MaxConsole/2); err != nil {
		t.Error(err)
	}
}

func realQEMU() bool {
	for _, name := range []string{"qemu-system-x86_64", "qemu-img"} {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// newOptions returns folders of a host with one empty image. Their paths are short enough for a socket.
func newOptions(t *testing.T, real bool) host.Options {
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
		if err := qemufake.Programs(folder); err != nil {
			t.Fatal(err)
		}
	}
	return options
}

// openHost opens a host and deletes its machines when the test ends.
func openHost(t *testing.T, options host.Options) *host.Host {
	t.Helper()
	machines, err := host.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteAll(t, machines) })
	return machines
}

// deleteAll deletes all machines of a host and closes it.
func deleteAll(t *testing.T, machines *host.Host) {
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

func imageOf(machines *host.Host, created driver.Instance) string {
	known, _ := machines.Get(created.ID)
	return known.Image.Path
}

func leftovers(machines *host.Host) (left []string) {
	for _, m := range machines.List() {
		left = append(left, m.ID)
	}
	return left
}

func newMachine() *infrav1.QEMUMachine {
	return &infrav1.QEMUMachine{Spec: infrav1.QEMUMachineSpec{
		Acceleration:               infrav1.QEMUAccelerationTCG,
		CPUs:                       ptr.To[int32](1),
		Memory:                     quantity("64Mi"),
		Image:                      infrav1.QEMUImage{QEMUFile: infrav1.QEMUFile{Path: "empty.raw"}, Format: "raw"},
		ShutdownGracePeriodSeconds: ptr.To[int32](0),
	}}
}

func connect(t *testing.T, machines *host.Host) driver.Driver[qemu.InstanceConfig] {
	t.Helper()
	connected, err := qemu.Cloud(machines, hostName).Connect(t.Context(), driver.Account{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func newConfig(t *testing.T, machine *infrav1.QEMUMachine) qemu.InstanceConfig {
	t.Helper()
	config, err := qemu.NewInstanceConfig(machine, "", hostName)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestTagKeepsTheUID: the identity of a machine may lack its UID.
func TestTagKeepsTheUID(t *testing.T) {
	t.Parallel()
	d := connect(t, openHost(t, newOptions(t, false)))
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	created, err := d.Create(t.Context(), driver.CreateRequest[qemu.InstanceConfig]{Identity: id, Config: newConfig(t, newMachine())})
	if err != nil {
		t.Fatal(err)
	}
	withoutUID := id
	withoutUID.UID, withoutUID.ProviderID = "", created.ProviderID
	if err := d.(driver.Tagger).Tag(t.Context(), withoutUID); err != nil {
		t.Fatal(err)
	}
	got, err := d.Get(t.Context(), id)
	id.ProviderID = created.ProviderID
	if diff := cmp.Diff(id, got.Identity); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
