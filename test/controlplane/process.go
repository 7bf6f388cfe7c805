// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tailBytes and tailLines bound how much of a log an error carries.
const (
	tailBytes = 8 << 10
	tailLines = 12
)

// process is a child that dies with this process, however this process dies,
// and that a Ctrl-C in the terminal does not reach.
type process struct {
	pid    int
	exited chan struct{} // closed once the child is gone and reaped

	cmd *exec.Cmd
	err error // how it ended; read after exited is closed
}

// startProcess starts the program at path, appending its output to the file
// log.
func startProcess(path, log string, args []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor

	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Dir(log)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()

	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// run starts the child and waits for its end on one operating system thread:
// the kernel ends the child when the thread that started it ends, and the Go
// runtime ends idle threads as it pleases.
func (p *process) run(started chan<- error) {
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

// environment is ours without what etcd would take for settings.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "ETCD_")
	})
}

// running says whether the child lives. A nil process does not.
func (p *process) running() bool {
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

// end asks the child to end, insists after grace, and returns once it is gone.
func (p *process) end(grace time.Duration) {
	_ = p.signal(syscall.SIGTERM) // gone already: exited is closed
	_ = p.signal(syscall.SIGCONT) // a frozen child would not hear the first
	select {
	case <-p.exited:
		return
	case <-time.After(grace):
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.exited
}

// signal sends s to the child, unless it is gone.
func (p *process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// state says how the child ended.
func (p *process) state() string {
	<-p.exited
	if p.err != nil {
		return p.err.Error()
	}
	return "exit status 0"
}

// logTail returns the last lines of the log at path, indented for an error.
func logTail(path string) string {
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
