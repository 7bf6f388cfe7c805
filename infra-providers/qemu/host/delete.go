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

	"github.com/go-logr/logr"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/qmp"
)

const (
	// powerButtonInterval is how often the power button is pressed: a guest that is still booting ignores it.
	powerButtonInterval = 5 * time.Second
	// quitTimeout is how long a process may take to end after the quit command or SIGKILL.
	quitTimeout = 10 * time.Second
	// lockPollInterval is how often the lock of an ending process is tried.
	lockPollInterval = 50 * time.Millisecond
)

// deleteMachine ends the process and deletes the folder.
func (s *supervisor) deleteMachine() error {
	s.setPhase(Deleting, "")
	if err := s.endProcess(s.providerCtx); err != nil {
		return err
	}
	if err := s.host.dir.Delete(s.spec.ID); err != nil {
		return fmt.Errorf("deleting its folder: %w", err)
	}
	s.host.remove(s.spec.ID)
	s.host.notify(s.machine())
	return nil
}

// endProcess powers the guest off, then quits QEMU, and kills the process if neither ends it. It succeeds only once the
// lock proves that the process has ended.
func (s *supervisor) endProcess(ctx context.Context) error {
	if s.processEnded() {
		return nil
	}
	client, err := s.dial(ctx)
	if err == nil {
		s.powerOff(ctx, client)
		_, _ = client.Execute(ctx, "quit", nil) // it may end before it answers
		_ = client.Close()
		if s.awaitProcessEnd(ctx) {
			logr.FromContextOrDiscard(ctx).Info("ended QEMU process")
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("killing its process: %w", err)
	}
	if !s.awaitProcessEnd(ctx) {
		return errors.New("its process does not end")
	}
	logr.FromContextOrDiscard(ctx).Info("killed QEMU process")
	return nil
}

func (s *supervisor) dial(ctx context.Context) (*qmp.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	return qmp.Dial(ctx, s.path(socketFile))
}

// powerOff returns once the guest has powered off or its grace period is over, which a restart of the provider does not
// extend.
func (s *supervisor) powerOff(ctx context.Context, client *qmp.Client) {
	ctx, cancel := context.WithDeadline(ctx, s.host.deletingSince(s.spec.ID).Add(s.spec.Grace))
	defer cancel()
	for ctx.Err() == nil {
		if status, err := queryStatus(ctx, client); err != nil || status != "running" {
			return
		}
		if _, err := client.Execute(ctx, "system_powerdown", nil); err != nil {
			return
		}
		timer := time.NewTimer(powerButtonInterval)
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

// processEnded reports whether no process holds the machine's lock.
func (s *supervisor) processEnded() bool {
	lock, err := statedir.Lock(s.path(lockFile))
	if err != nil {
		return false
	}
	_ = lock.Close()
	return true
}

func (s *supervisor) awaitProcessEnd(ctx context.Context) bool {
	for deadline := time.Now().Add(quitTimeout); ; {
		if s.processEnded() {
			return true
		}
		if time.Now().After(deadline) || !pause(ctx, lockPollInterval) {
			return false
		}
	}
}

// kill kills the process. Its process ID is valid only while the lock is held: the handle is taken first and refers to one
// process, even if the ID is used again.
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
	defer process.Release() //nolint:errcheck // it is not a child of this process
	if s.processEnded() {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
