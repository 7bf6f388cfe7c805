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
	"path/filepath"
	"runtime"
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
	for _, process := range processes {
		eventually(t, process.Name+" is gone", func(context.Context) error { return gone(process.PID) })
	}
}

func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	const script = `trap "echo answered" USR1; echo ready; while :; do sleep 0.1; done`

	var child *process
	thread := onDyingThread(func() { child, err = startProcess(shell, log, []string{"-c", script}) })
	if err != nil {
		t.Fatal(err)
	}
	defer child.end(stopGrace)
	eventually(t, "the thread is gone", func(context.Context) error {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil:
			return fmt.Errorf("thread %d is there", thread)
		default:
			return err
		}
	})
	eventually(t, "the child is ready", func(context.Context) error { return says(log, "ready") })
	if err := child.signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child answers", func(context.Context) error { return says(log, "answered") })
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

// onDyingThread calls f on a thread that ends afterwards and returns its id.
func onDyingThread(f func()) (thread int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if thread = syscall.Gettid(); thread == os.Getpid() {
			thread = onDyingThread(f) // the first thread of a process never ends
			return
		}
		f()
	}()
	<-done
	return thread
}

// says returns nil if the file at path holds word.
func says(path, word string) error {
	content, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(content), word) {
		err = fmt.Errorf("it says %q", content)
	}
	return err
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
