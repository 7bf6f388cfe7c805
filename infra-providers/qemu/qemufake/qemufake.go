// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package standin is a process that behaves towards the provider as QEMU does, for tests on machines without it:
// it takes the same command line, daemonizes, keeps what it inherits, opens its files, writes its process number
// and its console, and speaks QMP. There is no machine in it. A test program becomes it: see Programs and Main.
package standin

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
	roleVariable  = "DROVER_STANDIN"
	childVariable = "DROVER_STANDIN_CHILD"
)

// Words on a kernel's command line that choose how the guest behaves.
const (
	// Broken guests meet what KVM cannot do, so that QEMU gives them up.
	Broken = "broken"
	// Chatty guests have filled the console with lines.
	Chatty = "chatty"
	// Deaf guests do not power off when asked.
	Deaf = "deaf"
	// Off guests power off at once.
	Off = "off"
	// Stuck processes do not answer on their control socket.
	Stuck = "stuck"
)

// Line is what chatty guests write, over and over.
const Line = "the same line, over and over\n"

// ring is what a console keeps until it is read.
const ring = 1 << 20

// Booted is what the guest writes on its console each time that it was reset.
const Booted = "booting again\n"

// Programs writes scripts with the names of QEMU's programs into a folder. They run this test program, whose
// TestMain calls Main.
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

// Main runs the stand-in and ends the process, if this process is one.
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

// daemonize starts the process proper in a session of its own and returns once that is ready.
func daemonize() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	child := exec.Command(self, os.Args[1:]...)
	child.Env = append(os.Environ(), childVariable+"=1")
	child.ExtraFiles = []*os.File{os.NewFile(3, "inherited"), tell}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	_ = tell.Close()
	said := make([]byte, 512)
	n, _ := ready.Read(said)
	if words := string(said[:n]); words != "ready" {
		return errors.New(words)
	}
	return nil
}

// machine is what a command line asks for.
type machine struct {
	pid, socket, append string
	files               []string
	// console is what the guest wrote and nobody read.
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

// filesOf are the files of a block device and of those that it lies over.
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
