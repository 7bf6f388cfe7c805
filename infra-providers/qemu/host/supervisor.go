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

	"drover.io/infra-providers/qemu/qmp"
)

const (
	// firstRetry doubles with each failure in a row, up to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute
	// answerTime bounds what a healthy process needs to answer.
	answerTime = 20 * time.Second
	// glance is how often a running machine is looked at, besides the events that it sends.
	glance = 5 * time.Second
)

// keeper sees to one machine: it makes it, takes it over where it runs already, follows its events, and in the end
// takes it apart. One goroutine does all of it, so nothing is done to a machine twice at a time.
type supervisor struct {
	spec Spec
	host *Host
	done chan struct{}

	// life ends when the provider does, work when the machine is to be deleted.
	life, work context.Context
	stop, end  context.CancelFunc

	mu      sync.Mutex
	tags    map[string]string
	phase   Phase
	message string
	address string
	// client speaks to the machine while it is attended.
	client *qmp.Client
}

func newSupervisor(spec Spec, h *Host) *supervisor {
	s := &supervisor{spec: spec, host: h, done: make(chan struct{}), tags: spec.Tags, phase: Starting}
	if spec.Bridge == "" {
		s.address = guestAddress
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.work, s.end = context.WithCancel(s.life)
	if !h.store.deletingSince(spec.ID).IsZero() {
		s.end()
	}
	return s
}

func (s *supervisor) path(name string) string { return s.host.store.path(s.spec.ID, name) }

func (s *supervisor) machine() Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Machine{Spec: s.spec, Phase: s.phase, Message: s.message, Address: s.address}
	m.Tags = s.tags
	if s.work.Err() != nil && s.life.Err() == nil {
		m.Phase = Ending
	}
	return m
}

// retag writes the new tags down before anybody sees them.
func (s *supervisor) retag(tags map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(s.tags, tags) {
		return nil
	}
	spec := s.spec
	spec.Tags = tags
	if err := s.host.store.rewrite(spec); err != nil {
		return err
	}
	s.tags = tags
	return nil
}

// now records what the machine is at, and tells when that is new.
func (s *supervisor) now(phase Phase, message string) {
	s.mu.Lock()
	changed := s.phase != phase || s.message != message
	s.phase, s.message = phase, message
	s.mu.Unlock()
	if changed {
		s.host.tell(s.machine())
	}
}

func (s *supervisor) run() {
	defer close(s.done)
	s.retry(s.work, Starting, func() error {
		for s.work.Err() == nil {
			if err := s.live(); err != nil {
				return err
			}
		}
		return nil
	})
	s.retry(s.life, Ending, s.dismantle)
}

// retry does something until it succeeds or ctx ends.
func (s *supervisor) retry(ctx context.Context, phase Phase, do func() error) {
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastRetry { // it was well for a while
			wait = firstRetry
		}
		s.now(phase, err.Error())
		pause(ctx, wait)
	}
}

// live brings the machine up, or finds it up, and stays until its process or the work ends.
func (s *supervisor) live() error {
	client, err := s.boot(s.work)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the machine goes on
	s.serves(client)
	defer s.serves(nil)
	if err := s.attend(client); err != nil {
		return err
	}
	if s.work.Err() == nil {
		return errors.New("its process ended, although nobody shut it down")
	}
	return nil
}

func (s *supervisor) serves(client *qmp.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
}

// reset pushes the reset button of a guest that runs. QEMU itself would also reset one that is off.
func (s *supervisor) reset(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return ErrNotRunning
	}
	status, err := ask(ctx, client)
	if err != nil {
		return err
	}
	if status != "running" {
		return ErrNotRunning
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err = client.Execute(ctx, "system_reset", nil)
	return err
}

// attend follows a machine until its connection or the work ends.
func (s *supervisor) attend(client *qmp.Client) error {
	for s.work.Err() == nil && open(client) {
		err := s.look(client)
		if err != nil && open(client) && s.work.Err() == nil {
			return err
		}
		timer := time.NewTimer(glance)
		select {
		case <-s.work.Done():
		case <-client.Done():
		case <-client.Events():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// open reports whether a process still serves the connection.
func open(client *qmp.Client) bool {
	select {
	case <-client.Done():
		return false
	default:
		return true
	}
}

// look asks the machine how it is.
func (s *supervisor) look(client *qmp.Client) error {
	status, err := ask(s.work, client)
	if err != nil || s.work.Err() != nil {
		return err
	}
	if err := s.drainConsole(s.work, client); err != nil {
		return err
	}
	if s.spec.Bridge != "" {
		s.findAddress()
	}
	switch status {
	case "running":
		s.now(Running, "")
	case "prelaunch", "inmigrate":
		s.now(Starting, "")
	case "shutdown", "guest-panicked":
		s.now(Stopped, "its guest powered off")
	default:
		words := "QEMU says that it is " + status
		if status == "internal-error" && s.spec.Acceleration != "TCG" {
			words += ", which may be a KVM of the host that cannot run the guest: choose the acceleration TCG"
		}
		s.now(Stopped, words)
	}
	return nil
}

// findAddress asks the host's own neighbour table.
func (s *supervisor) findAddress() {
	address := neighbour(s.spec.MAC)
	s.mu.Lock()
	changed := address != "" && s.address != address
	if changed {
		s.address = address
	}
	s.mu.Unlock()
	if changed {
		s.host.tell(s.machine())
	}
}

// ask returns QEMU's word for the state of a machine.
func ask(ctx context.Context, client *qmp.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
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
