// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs child processes that end with this process,
// however it ends, and a Ctrl-C in the terminal reaches this process, which stops them. The
// control plane and the managers under test are started with it. It is independent of what
// it runs.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// tailBytes and tailLines bound how much of a log an error carries.
const (
	tailBytes = 8 << 10
	tailLines = 12
)

// Process is a running or ended child.
type Process struct {
	// PID of the child.
	PID int

	cmd    *exec.Cmd
	exited chan struct{} // closed once the child is gone and reaped
	err    error         // how it ended; read after exited is closed
}

// Command is what to run.
type Command struct {
	// Path of the program, and its arguments.
	Path string
	Args []string
	// Log is the file that the child's output is appended to; its folder is the child's.
	Log string
	// Env is the child's environment. Default: ours.
	Env []string
}

// Start starts the child.
func Start(command Command) (*Process, error) {
	out, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor

	cmd := exec.Command(command.Path, command.Args...)
	cmd.Dir = filepath.Dir(command.Log)
	cmd.Env = command.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()

	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID = cmd.Process.Pid
	return p, nil
}

// run starts the child and waits for its end on one operating system thread: the kernel
// ends the child when the thread that started it ends, and the Go runtime ends idle threads
// as it pleases.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// Exited is closed once the child is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the child is running. A nil Process is not.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// End sends SIGTERM to the child, and SIGKILL after grace, and returns once it is gone.
func (p *Process) End(grace time.Duration) {
	_ = p.Signal(syscall.SIGTERM) // gone already: exited is closed
	_ = p.Signal(syscall.SIGCONT) // a stopped child does not handle SIGTERM
	select {
	case <-p.exited:
		return
	case <-time.After(grace):
	}
	p.Kill()
}

// Kill sends SIGKILL to the child, and returns once it is gone.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Signal sends s to the child, unless it is gone.
func (p *Process) Signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// State waits for the child's end and returns its exit status.
func (p *Process) State() string {
	<-p.exited
	if p.err != nil {
		return p.err.Error()
	}
	return "exit status 0"
}

// Tail returns the last lines of the log at path, indented for an error.
func Tail(path string) string {
	raw, err := readTail(path)
	if err != nil {
		return fmt.Sprintf(" (reading its log: %v)", err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return fmt.Sprintf("\n  last lines of %s:\n    %s", path, strings.Join(lines, "\n    "))
}

// readTail reads the last tailBytes of the file at path.
func readTail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	start := max(0, size-tailBytes)
	var tail bytes.Buffer
	_, err = io.Copy(&tail, io.NewSectionReader(f, start, size-start))
	return tail.Bytes(), err
}
