// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package qemufake is a fake of QEMU's programs for tests without QEMU: a process that has the same command line,
// daemonizes, keeps inherited files, opens its files, writes its process ID and its console, and serves QMP. It runs no
// machine. A test program runs as the fake: see Programs and Main.
package qemufake

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	roleVariable  = "DROVER_QEMUFAKE"
	childVariable = "DROVER_QEMUFAKE_CHILD"
)

// Words on a kernel's command line that choose the behaviour of the guest.
const (
	// InternalError guests fail in KVM, and QEMU reports an internal error.
	InternalError = "broken"
	// FullConsole guests have filled the console with lines.
	FullConsole = "chatty"
	// IgnoresPowerButton guests do not power off on the power button.
	IgnoresPowerButton = "deaf"
	// PoweredOff guests power off at once.
	PoweredOff = "off"
	// Unresponsive processes do not answer on their control socket.
	Unresponsive = "stuck"
)

// Line is what FullConsole guests write repeatedly.
const Line = "the same line, over and over\n"

// ring is the size of the console's buffer.
const ring = 1 << 20

// Booted is what the guest writes on its console after each reset.
const Booted = "booting again\n"

// Programs writes scripts with the names of QEMU's programs to a folder. They run this test program, whose TestMain calls
// Main.
func Programs(folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"qemu-system-x86_64", "qemu-img"} {
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %q \"$@\"\n", roleVariable, name, self)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil { //nolint:gosec // it is to be run
			return err
		}
	}
	return nil
}

// Main runs the fake and ends the process, if this process is one.
func Main() {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		return
	case "qemu-img":
		err = image(os.Args[1:])
	default:
		if os.Getenv(childVariable) == "" {
			err = daemonize()
		} else {
			err = serve(parse(os.Args[1:]))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "qemu:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// daemonize starts the daemon in a session of its own and returns once it is ready.
func daemonize() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready, readyWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	child := exec.Command(self, os.Args[1:]...)
	child.Env = append(os.Environ(), childVariable+"=1")
	child.ExtraFiles = []*os.File{os.NewFile(3, "inherited"), readyWriter}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	_ = readyWriter.Close()
	output := make([]byte, 512)
	n, _ := ready.Read(output)
	if words := string(output[:n]); words != "ready" {
		return errors.New(words)
	}
	return nil
}

// machine is the machine of a command line.
type machine struct {
	pid, socket, append string
	files               []string
	// console is the unread output of the guest.
	console []byte
}

func parse(args []string) machine {
	var m machine
	for i := 0; i+1 < len(args); i++ {
		at := args[i+1]
		switch args[i] {
		case "-pidfile":
			m.pid = at
		case "-append":
			m.append = at
		case "-chardev":
			if strings.HasPrefix(at, "socket,") {
				m.socket = option(at, "path")
			}
		case "-fw_cfg":
			m.files = append(m.files, option(at, "file"))
		case "-blockdev":
			m.files = append(m.files, filesOf([]byte(at))...)
		case "-kernel", "-initrd", "-bios":
			m.files = append(m.files, at)
		}
	}
	return m
}

func option(list, name string) string {
	for part := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

// filesOf returns the files of a block device and of its backing devices.
func filesOf(device []byte) []string {
	var node struct {
		File    struct{ Filename string }
		Backing json.RawMessage
	}
	if len(device) == 0 || json.Unmarshal(device, &node) != nil || node.File.Filename == "" {
		return nil
	}
	return append([]string{node.File.Filename}, filesOf(node.Backing)...)
}
