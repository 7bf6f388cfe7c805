// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestKilledParentLeavesNoProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentVariable+"=yes", "TMPDIR="+t.TempDir())
	parent.Stderr = os.Stderr
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var processes []Process
	decoding := json.NewDecoder(stdout).Decode(&processes)
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := parent.Wait(); err == nil {
		t.Error("the parent ended before it was killed")
	}
	if decoding != nil {
		t.Fatal(decoding)
	}
	if len(processes) != 3 {
		t.Fatalf("the parent had %d processes, want 3", len(processes))
	}
	for _, each := range processes {
		eventually(t, each.Name+" is gone", func(context.Context) error { return gone(each.PID) })
	}
}

func TestChildIsOutOfReachOfTheTerminal(t *testing.T) {
	t.Parallel()
	for _, process := range sharedCluster(t).Processes() {
		group, err := syscall.Getpgid(process.PID)
		if err != nil {
			t.Fatal(err)
		}
		if group != process.PID {
			t.Errorf("%s is in process group %d, want one of its own", process.Name, group)
		}
	}
}

// gone returns nil if the process has ended, reaped or not.
func gone(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return nil
	}
	return fmt.Errorf("it runs: %s", stat)
}
