// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
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
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// grace bounds how long a child may take to end.
const grace = 15 * time.Second

func TestChildIsKeptAfterThreadExit(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	const script = `trap "echo answered" USR1; echo ready; while :; do sleep 0.1; done`

	var child *Process
	thread := onDyingThread(func() {
		child, err = Start(Command{Path: shell, Args: []string{"-c", script}, Log: log})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer child.End(grace)
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
	eventually(t, "the child is ready", func(context.Context) error { return message(log, "ready") })
	if err := child.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child answers", func(context.Context) error { return message(log, "answered") })
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"waits for a child that handles SIGTERM": {"trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done", "exit status 7"},
		"insists where a child does not listen":  {"trap '' TERM; echo ready; while :; do sleep 0.1; done", "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			child, err := Start(Command{Path: "/bin/sh", Args: []string{"-c", test.script}, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the child is ready", func(context.Context) error { return message(log, "ready") })
			child.End(time.Second)
			if got := child.State(); got != test.want || child.Running() {
				t.Errorf("it ended with %q, want %q", got, test.want)
			}
			if tail := Tail(log); !strings.Contains(tail, "ready") {
				t.Errorf("the tail of its log is %q", tail)
			}
		})
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

// message returns nil if the file at path contains word.
func message(path, word string) error {
	content, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(content), word) {
		err = fmt.Errorf("it contains %q", content)
	}
	return err
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}
