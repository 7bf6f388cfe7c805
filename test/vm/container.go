// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drover.io/test/process"
)

// Gateway is the address of the host in the machine's network, and Address that of the machine, both as in QEMU's user networking.
const (
	Gateway = "10.0.2.2"
	Address = "10.0.2.15"
)

// Container is the guest of guest.sh in systemd-nspawn: its own systemd, cloud-init, containerd and kubelet, on the
// host's kernel, in a network that reaches nothing but some ports of the host's loopback.
type Container struct {
	Name string
	// Root is its root folder. Change it before Boot.
	Root string
	// Log is its console.
	Log string

	script    string
	process   *process.Process
	listeners []net.Listener
}

// NewContainer copies a root folder and makes the network.
func NewContainer(name, repository, dir string, ports ...int) (*Container, error) {
	c := &Container{
		Name: name, Root: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"),
		script: filepath.Join(repository, "test", "vm", "nspawn.sh"),
	}
	// The kernel and its modules are the host's.
	copying := fmt.Sprintf("mkdir %[2]q && tar -C %[1]q --exclude=./boot --exclude=./usr/lib/modules -cf - . | tar -C %[2]q -xf -",
		filepath.Join(repository, "bin", "guest", "root"), c.Root)
	for _, command := range [][]string{
		{"bash", "-c", copying},
		{"ip", "netns", "add", name},
		{"ip", "-n", name, "link", "set", "lo", "up"},
		{"ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0"},
		{"ip", "-n", name, "address", "add", Address + "/24", "dev", "eth0"},
		{"ip", "-n", name, "link", "set", "peer0", "up"},
		{"ip", "-n", name, "link", "set", "eth0", "up"},
		{"ip", "-n", name, "route", "add", "default", "dev", "eth0"},
	} {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return c, fmt.Errorf("running %s: %w\n%s", strings.Join(command, " "), err, output)
		}
	}
	for _, port := range ports {
		if err := c.Relay(fmt.Sprintf("%s:%d", Gateway, port), port); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Write writes a file in the root.
func (c *Container) Write(path, content string, mode fs.FileMode) error {
	path = filepath.Join(c.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode))
}

// Boot starts the container.
func (c *Container) Boot() error {
	started, err := process.Start(process.Command{Path: c.script, Args: []string{c.Root, c.Name}, Log: c.Log})
	c.process = started
	return err
}

// Err is the exit status of the container; nil while it runs.
func (c *Container) Err() error {
	if c.process.Running() {
		return nil
	}
	return fmt.Errorf("%s ended: %s%s", c.Name, c.process.State(), process.Tail(c.Log))
}

// Run runs a command inside.
func (c *Container) Run(ctx context.Context, command ...string) error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.process.PID, c.process.PID))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(children), " ")
	args := append([]string{"-t", first, "-m", "-p", "-u", "-i", "-n", "--"}, command...)
	if output, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running %v in %s: %w\n%s", command, c.Name, err, output)
	}
	return nil
}

// Stop shuts the container down and removes everything of it.
func (c *Container) Stop() error {
	if c.process.Running() {
		c.process.End(time.Minute)
	}
	var errs []error
	for _, l := range c.listeners {
		errs = append(errs, l.Close())
	}
	errs = append(errs, remove(c.Name))
	return errors.Join(append(errs, os.RemoveAll(c.Root))...)
}

// Relay listens on an address and port inside the network and passes connections on to a port of the host's loopback.
func (c *Container) Relay(address string, port int) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if output, err := exec.Command("ip", "-n", c.Name, "address", "replace", host+"/32", "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("adding address %s: %w\n%s", host, err, output)
	}
	listener, err := listenIn(c.Name, address)
	if err != nil {
		return fmt.Errorf("relaying %s: %w", address, err)
	}
	c.listeners = append(c.listeners, listener)
	go func() {
		for {
			inside, err := listener.Accept()
			if err != nil {
				return
			}
			outside, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = inside.Close()
				continue
			}
			go pass(inside, outside)
			go pass(outside, inside)
		}
	}()
	return nil
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// listenIn listens in another network namespace: a socket stays in the one that its thread was in when it was made.
func listenIn(namespace, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, its namespace with it
		there, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			err = errors.Join(unix.Setns(int(there.Fd()), unix.CLONE_NEWNET), there.Close())
		}
		if err != nil {
			made <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp4", address)
		made <- result{listener, err}
	}()
	got := <-made
	return got.listener, got.err
}
