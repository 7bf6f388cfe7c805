// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/vm"
)

// TestKillOfAnEndedProcess has another process with the ID of the machine's earlier one.
func TestKillOfAnEndedProcess(t *testing.T) {
	t.Parallel()
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- other.Wait() }()
	t.Cleanup(func() { _ = other.Process.Kill() })
	dir, err := statedir.Open[vm.Spec](statedir.Options{Path: t.TempDir(), SpecFile: "machine.json"})
	if err != nil {
		t.Fatal(err)
	}
	spec := vm.Spec{ID: "vm-1"}
	pid := []byte(strconv.Itoa(other.Process.Pid))
	if err := errors.Join(dir.Create(spec.ID, spec, nil), os.WriteFile(dir.Path(spec.ID, pidFile), pid, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &supervisor{spec: spec, host: &Host{dir: dir}}
	if err := s.kill(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the other process was killed: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
}
