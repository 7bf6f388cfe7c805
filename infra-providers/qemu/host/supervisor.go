// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"drover.io/infra-providers/qemu/qmp"
	"drover.io/infra-providers/qemu/vm"
)

const (
	// firstRetry is doubled with each consecutive failure, up to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute
	// commandTimeout bounds one command to a process.
	commandTimeout = 20 * time.Second
	// observeInterval is how often a running machine is read, besides its events.
	observeInterval = 5 * time.Second
)

// supervisor manages one machine: it creates the machine or takes it over if it runs, follows its events, and deletes it.
// One goroutine does all of it, so no two steps of a machine run at the same time.
type supervisor struct {
	spec vm.Spec
	host *Host
	done chan struct{}

	// providerCtx ends with the provider, machineCtx when the machine is to be deleted.
	providerCtx, machineCtx context.Context
	stop, startDeletion     context.CancelFunc

	mu      sync.Mutex
	tags    map[string]string
	phase   Phase
	message string
	address string
	// client is the connection to the process, nil without one.
	client *qmp.Client
}

func newSupervisor(spec vm.Spec, h *Host) *supervisor {
	s := &supervisor{spec: spec, host: h, done: make(chan struct{}), tags: spec.Tags, phase: Starting}
	if spec.Bridge == "" {
		s.address = guestAddress
	}
	ctx := logr.NewContext(context.Background(), h.options.Logger.WithValues("machine", spec.ID))
	s.providerCtx, s.stop = context.WithCancel(ctx)
	s.machineCtx, s.startDeletion = context.WithCancel(s.providerCtx)
	if !h.deletingSince(spec.ID).IsZero() {
		s.startDeletion()
	}
	return s
}

func (s *supervisor) path(name string) string { return s.host.dir.Path(s.spec.ID, name) }

func (s *supervisor) machine() Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Machine{Spec: s.spec, Phase: s.phase, Message: s.message, Address: s.address}
	m.Tags = s.tags
	if s.machineCtx.Err() != nil && s.providerCtx.Err() == nil {
		m.Phase = Deleting
	}
	return m
}

// retag stores the new tags before they are visible.
func (s *supervisor) retag(tags map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(s.tags, tags) {
		return nil
	}
	spec := s.spec
	spec.Tags = tags
	if err := s.host.dir.Save(spec.ID, spec); err != nil {
		return err
	}
	s.tags = tags
	return nil
}

// setPhase sets the phase of the machine, and notifies when it has changed.
func (s *supervisor) setPhase(phase Phase, message string) {
	s.mu.Lock()
	changed := s.phase != phase || s.message != message
	s.phase, s.message = phase, message
	s.mu.Unlock()
	if changed {
		s.host.notify(s.machine())
	}
}

func (s *supervisor) run() {
	defer close(s.done)
	s.retry(s.machineCtx, Starting, func() error {
		for s.machineCtx.Err() == nil {
			if err := s.superviseProcess(); err != nil {
				return err
			}
		}
		return nil
	})
	s.retry(s.providerCtx, Deleting, s.deleteMachine)
}

// retry repeats a step until it succeeds or ctx ends.
func (s *supervisor) retry(ctx context.Context, phase Phase, do func() error) {
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastRetry { // it succeeded for a while
			wait = firstRetry
		}
		s.setPhase(phase, err.Error())
		pause(ctx, wait)
	}
}

// superviseProcess starts the process unless it runs, and returns when the process or machineCtx ends.
func (s *supervisor) superviseProcess() error {
	client, err := s.connect(s.machineCtx)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the process keeps running
	s.setClient(client)
	defer s.setClient(nil)
	if err := s.follow(client); err != nil {
		return err
	}
	if s.machineCtx.Err() == nil {
		return errors.New("its process ended without a shutdown")
	}
	return nil
}

func (s *supervisor) setClient(client *qmp.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
}

// reset resets a running guest. QEMU itself would also reset one that is off.
func (s *supervisor) reset(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return ErrNotRunning
	}
	status, err := queryStatus(ctx, client)
	if err != nil {
		return err
	}
	if status != "running" {
		return ErrNotRunning
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	_, err = client.Execute(ctx, "system_reset", nil)
	return err
}

// follow observes a machine until its connection or machineCtx ends.
func (s *supervisor) follow(client *qmp.Client) error {
	for s.machineCtx.Err() == nil && isOpen(client) {
		err := s.observe(client)
		if err != nil && isOpen(client) && s.machineCtx.Err() == nil {
			return err
		}
		timer := time.NewTimer(observeInterval)
		select {
		case <-s.machineCtx.Done():
		case <-client.Done():
		case <-client.Events():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// isOpen reports whether the connection is open.
func isOpen(client *qmp.Client) bool {
	select {
	case <-client.Done():
		return false
	default:
		return true
	}
}

// observe reads the state of the machine and its console.
func (s *supervisor) observe(client *qmp.Client) error {
	status, err := queryStatus(s.machineCtx, client)
	if err != nil || s.machineCtx.Err() != nil {
		return err
	}
	if err := s.drainConsole(s.machineCtx, client); err != nil {
		return err
	}
	if s.spec.Bridge != "" {
		s.findAddress()
	}
	switch status {
	case "running":
		s.setPhase(Running, "")
	case "prelaunch", "inmigrate":
		s.setPhase(Starting, "")
	case "shutdown", "guest-panicked":
		s.setPhase(Stopped, "its guest powered off")
	default:
		message := "QEMU reports the state " + status
		if status == "internal-error" && s.spec.Acceleration != "TCG" {
			message += ", which may be a KVM of the host that cannot run the guest: set the acceleration TCG"
		}
		s.setPhase(Stopped, message)
	}
	return nil
}

// findAddress reads the neighbor table of the host.
func (s *supervisor) findAddress() {
	address := neighborAddress(s.spec.MAC)
	s.mu.Lock()
	changed := address != "" && s.address != address
	if changed {
		s.address = address
	}
	s.mu.Unlock()
	if changed {
		s.host.notify(s.machine())
	}
}

// queryStatus returns QEMU's status of a machine.
func queryStatus(ctx context.Context, client *qmp.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	raw, err := client.Execute(ctx, "query-status", nil)
	if err != nil {
		return "", err
	}
	var answer struct {
		Status string `json:"status"`
	}
	return answer.Status, json.Unmarshal(raw, &answer)
}
