// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"drover.io/infra-providers/qemu/qmp"
)

const (
	// press is how often the power button is pressed: a guest that still boots does not feel it.
	press = 5 * time.Second
	// quitTime is what a process may take to end once it was told or killed.
	quitTime = 10 * time.Second
	// peep is how often the lock of a process that is about to end is tried.
	peep = 50 * time.Millisecond
)

// dismantle ends the process and removes the folder.
func (s *supervisor) dismantle() error {
	s.now(Ending, "")
	if err := s.endProcess(s.life); err != nil {
		return err
	}
	if err := s.host.store.remove(s.spec.ID); err != nil {
		return fmt.Errorf("removing its folder: %w", err)
	}
	s.host.forget(s.spec.ID)
	s.host.tell(s.machine())
	return nil
}

// endProcess asks the guest to power off, then QEMU to quit, and kills it if neither helps. It returns without an
// error only once the kernel says that the process is gone.
func (s *supervisor) endProcess(ctx context.Context) error {
	if s.gone() {
		return nil
	}
	client, err := s.dial(ctx)
	if err == nil {
		s.powerOff(ctx, client)
		_, _ = client.Execute(ctx, "quit", nil) // it may be gone before it answers
		_ = client.Close()
		if s.awaitGone(ctx) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("killing its process: %w", err)
	}
	if !s.awaitGone(ctx) {
		return errors.New("its process does not end")
	}
	return nil
}

func (s *supervisor) dial(ctx context.Context) (*qmp.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, quitTime)
	defer cancel()
	return qmp.Dial(ctx, s.path(socketFile))
}

// powerOff returns once the guest has powered off or its grace is over, which a restart does not begin anew.
func (s *supervisor) powerOff(ctx context.Context, client *qmp.Client) {
	ctx, cancel := context.WithDeadline(ctx, s.host.store.deletingSince(s.spec.ID).Add(s.spec.Grace))
	defer cancel()
	for ctx.Err() == nil {
		if status, err := ask(ctx, client); err != nil || status != "running" {
			return
		}
		if _, err := client.Execute(ctx, "system_powerdown", nil); err != nil {
			return
		}
		timer := time.NewTimer(press)
	events:
		for {
			select {
			case event := <-client.Events():
				if event.Name == "SHUTDOWN" {
					timer.Stop()
					return
				}
			case <-client.Done():
				timer.Stop()
				return
			case <-ctx.Done():
				break events
			case <-timer.C:
				break events
			}
		}
		timer.Stop()
	}
}

// gone reports whether no process holds the machine's lock.
func (s *supervisor) gone() bool {
	lock, err := flock(s.path(lockFile))
	if err != nil {
		return false
	}
	_ = lock.Close()
	return true
}

func (s *supervisor) awaitGone(ctx context.Context) bool {
	for deadline := time.Now().Add(quitTime); ; {
		if s.gone() {
			return true
		}
		if time.Now().After(deadline) || !pause(ctx, peep) {
			return false
		}
	}
}

// kill ends the process without asking. Its number is believed only while the lock is held: the handle is taken
// first and stays with one process, whatever becomes of the number.
func (s *supervisor) kill() error {
	content, err := os.ReadFile(s.path(pidFile))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return err
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer process.Release() //nolint:errcheck // it is no child of ours
	if s.gone() {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
