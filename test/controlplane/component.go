// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover.io/runtime/envtest"
	"drover.io/test/process"
)

const (
	// pollInterval is how often a starting program is probed.
	pollInterval = 50 * time.Millisecond

	// probeTimeout bounds one such question.
	probeTimeout = 5 * time.Second

	// stopGrace is how long a program may take to end after SIGTERM.
	stopGrace = 15 * time.Second

	// portAttempts bounds how many ports are tried when others take them first.
	portAttempts = 8
)

// component is one program of a cluster: how to start it, how to check that it
// serves, and its process while it runs.
type component struct {
	name string
	path string
	log  string

	// port is where the program listens; nil if it does not.
	port *port

	// args returns the arguments for the current port.
	args func() []string

	// ready returns nil once the program serves.
	ready func(ctx context.Context) error

	process *process.Process
	started bool // has served once: clients use the port
}

// start starts the program unless it runs and waits until it serves. If
// another process took its port it moves to another, once only: later starts
// keep the port that clients use.
func (c *component) start(ctx context.Context) error {
	if c.process.Running() {
		return nil
	}
	for attempt := 1; ; attempt++ {
		err := c.launch(ctx)
		if err == nil {
			c.started = true
			return nil
		}
		if c.started || c.port == nil || attempt == portAttempts || !errors.Is(err, errPortTaken) {
			return err
		}
		if err := c.port.move(); err != nil {
			return err
		}
	}
}

// launch starts the program once. On an error nothing is left running.
func (c *component) launch(ctx context.Context) error {
	p, err := process.Start(process.Command{Path: c.path, Args: c.args(), Log: c.log, Env: environment()})
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.name, err)
	}
	if err := c.await(ctx, p); err != nil {
		p.End(stopGrace)
		return err
	}
	c.process = p
	return nil
}

// await returns once p serves, or an error with the end of its log if it ended
// or ctx ended first.
func (c *component) await(ctx context.Context, p *process.Process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		unready := c.ready(probe)
		cancel()
		if unready == nil && p.Running() {
			return nil
		}
		select {
		case <-p.Exited():
			return c.exitError(p)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to serve: %w%s", c.name, errors.Join(ctx.Err(), unready), process.Tail(c.log))
		case <-tick.C:
		}
	}
}

// stop ends the program. It returns an error if the program had ended by itself.
func (c *component) stop() error {
	p := c.process
	if p == nil {
		return nil
	}
	c.process = nil
	if !p.Running() {
		return c.exitError(p)
	}
	p.End(stopGrace)
	return nil
}

// exitError describes an unexpected end of p.
func (c *component) exitError(p *process.Process) error {
	tail := process.Tail(c.log)
	err := fmt.Errorf("%s ended by itself: %s%s", c.name, p.State(), tail)
	if isPortTaken(tail) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// pause freezes the program.
func (c *component) pause() error {
	return c.signal(syscall.SIGSTOP)
}

// resume continues a stopped program.
func (c *component) resume() error {
	return c.signal(syscall.SIGCONT)
}

func (c *component) signal(s syscall.Signal) error {
	if !c.process.Running() {
		return fmt.Errorf("sending %q to %s: it is not running", s, c.name)
	}
	return c.process.Signal(s)
}

// pid returns the process id, or 0 while the program does not run.
func (c *component) pid() int {
	if !c.process.Running() {
		return 0
	}
	return c.process.PID
}

// environment is that of Kubernetes' programs, without what etcd would take for settings.
func environment() []string {
	return slices.DeleteFunc(envtest.Environment(), func(variable string) bool { return strings.HasPrefix(variable, "ETCD_") })
}
