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
	glance = 15 * time.Second
)

// keeper sees to one machine: it makes it, takes it over where it runs already, follows its events, and in the end
// takes it apart. One goroutine does all of it, so nothing is done to a machine twice at a time.
type keeper struct {
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

func newKeeper(spec Spec, h *Host) *keeper {
	k := &keeper{spec: spec, host: h, done: make(chan struct{}), tags: spec.Tags, phase: Starting}
	if spec.Bridge == "" {
		k.address = guestAddress
	}
	k.life, k.stop = context.WithCancel(context.Background())
	k.work, k.end = context.WithCancel(k.life)
	if !h.store.deletingSince(spec.ID).IsZero() {
		k.end()
	}
	return k
}

func (k *keeper) path(name string) string { return k.host.store.path(k.spec.ID, name) }

func (k *keeper) machine() Machine {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := Machine{Spec: k.spec, Phase: k.phase, Message: k.message, Address: k.address}
	m.Tags = k.tags
	if k.work.Err() != nil && k.life.Err() == nil {
		m.Phase = Ending
	}
	return m
}

// retag writes the new tags down before anybody sees them.
func (k *keeper) retag(tags map[string]string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if maps.Equal(k.tags, tags) {
		return nil
	}
	spec := k.spec
	spec.Tags = tags
	if err := k.host.store.rewrite(spec); err != nil {
		return err
	}
	k.tags = tags
	return nil
}

// now records what the machine is at, and tells when that is new.
func (k *keeper) now(phase Phase, message string) {
	k.mu.Lock()
	changed := k.phase != phase || k.message != message
	k.phase, k.message = phase, message
	k.mu.Unlock()
	if changed {
		k.host.tell(k.machine())
	}
}

func (k *keeper) run() {
	defer close(k.done)
	k.retry(k.work, Starting, func() error {
		for k.work.Err() == nil {
			if err := k.live(); err != nil {
				return err
			}
		}
		return nil
	})
	k.retry(k.life, Ending, k.dismantle)
}

// retry does something until it succeeds or ctx ends.
func (k *keeper) retry(ctx context.Context, phase Phase, do func() error) {
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastRetry { // it was well for a while
			wait = firstRetry
		}
		k.now(phase, err.Error())
		pause(ctx, wait)
	}
}

// live brings the machine up, or finds it up, and stays until its process or the work ends.
func (k *keeper) live() error {
	client, err := k.raise(k.work)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the machine goes on
	k.serves(client)
	defer k.serves(nil)
	if err := k.attend(client); err != nil {
		return err
	}
	if k.work.Err() == nil {
		return errors.New("its process ended, although nobody shut it down")
	}
	return nil
}

func (k *keeper) serves(client *qmp.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client = client
}

// reset pushes the reset button of a guest that runs. QEMU itself would also reset one that is off.
func (k *keeper) reset(ctx context.Context) error {
	k.mu.Lock()
	client := k.client
	k.mu.Unlock()
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
func (k *keeper) attend(client *qmp.Client) error {
	for k.work.Err() == nil && open(client) {
		err := k.look(client)
		if err != nil && open(client) && k.work.Err() == nil {
			return err
		}
		timer := time.NewTimer(glance)
		select {
		case <-k.work.Done():
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
func (k *keeper) look(client *qmp.Client) error {
	status, err := ask(k.work, client)
	if err != nil || k.work.Err() != nil {
		return err
	}
	if k.spec.Bridge != "" {
		k.findAddress()
	}
	switch status {
	case "running":
		k.now(Running, "")
	case "prelaunch", "inmigrate":
		k.now(Starting, "")
	case "shutdown", "guest-panicked":
		k.now(Stopped, "its guest powered off")
	default:
		words := "QEMU says that it is " + status
		if status == "internal-error" && k.spec.Acceleration != "TCG" {
			words += ", which may be a KVM of the host that cannot run the guest: choose the acceleration TCG"
		}
		k.now(Stopped, words)
	}
	return nil
}

// findAddress asks the host's own neighbour table.
func (k *keeper) findAddress() {
	address := neighbour(k.spec.MAC)
	k.mu.Lock()
	changed := address != "" && k.address != address
	if changed {
		k.address = address
	}
	k.mu.Unlock()
	if changed {
		k.host.tell(k.machine())
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
