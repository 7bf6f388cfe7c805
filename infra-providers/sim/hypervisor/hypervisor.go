// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hypervisor is the simulated cloud. It keeps one folder per instance in a state directory and runs
// one simulated host per folder. The folders outlive the process: whoever opens the directory again finds
// the hosts as they were, with their user data and certificates, as virtual machines outlive a controller.
//
// An instance exists exactly as long as its folder does: the folder appears complete by one rename and
// disappears by one rename. The package knows nothing of Machines; tags are opaque to it. The sim driver
// calls it.
package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Spec is what an instance is. Only its tags and Restarted ever change.
type Spec struct {
	ID           string              `json:"id"`
	ProviderID   string              `json:"providerID"`
	Hostname     string              `json:"hostname"`
	Zone         string              `json:"zone"`
	InstanceType string              `json:"instanceType"`
	Architecture string              `json:"architecture"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Tags         map[string]string   `json:"tags"`
	BootDelay    time.Duration       `json:"bootDelay"`
	NeverJoins   bool                `json:"neverJoins,omitempty"`
	DiesAfter    time.Duration       `json:"diesAfter,omitempty"`

	// Created and InternalIP are filled in by Create, Restarted by the last Restart.
	Created    time.Time `json:"created"`
	InternalIP string    `json:"internalIP"`
	Restarted  time.Time `json:"restarted,omitzero"`
}

// Instance is an instance as it is now.
type Instance struct {
	Spec
	// Running is false while it boots; BootsIn is the time that is left.
	Running bool
	BootsIn time.Duration
	// Joined, Failed and Message are what the host's console tells.
	Joined, Failed bool
	Message        string
}

// Hypervisor runs simulated hosts.
type Hypervisor struct {
	store *store
	name  string

	mu      sync.Mutex
	hosts   map[string]*host
	changed []func(Instance)
}

// plain IDs are safe as names of folders.
var plain = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Open takes a state directory for this process and starts the hosts in it. It fails while another
// process has the directory.
func Open(dir string) (*Hypervisor, error) {
	store, err := openStore(dir)
	if err != nil {
		return nil, fmt.Errorf("opening state directory %q: %w", dir, err)
	}
	name, err := store.name()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("naming state directory %q: %w", dir, err), store.close())
	}
	h := &Hypervisor{store: store, name: name, hosts: map[string]*host{}}
	specs, err := store.load()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading state directory %q: %w", dir, err), store.close())
	}
	for _, spec := range specs {
		h.start(spec, nil)
	}
	return h, nil
}

// Name tells this hypervisor's state directory from every other one, and stays the same as long as the directory does.
func (h *Hypervisor) Name() string { return h.name }

// Close stops the hosts of this process. Their instances stay.
func (h *Hypervisor) Close() error {
	h.mu.Lock()
	hosts := slices.Collect(maps.Values(h.hosts))
	h.hosts = map[string]*host{}
	h.mu.Unlock()
	for _, host := range hosts {
		host.cancel()
	}
	for _, host := range hosts {
		<-host.done
	}
	return h.store.close()
}

// Create makes the instance with spec.ID and starts its host, or returns the one that exists.
func (h *Hypervisor) Create(spec Spec, userData []byte) (Instance, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.hosts[spec.ID]; ok {
		return known.instance(), nil
	}
	if !plain.MatchString(spec.ID) {
		return Instance{}, fmt.Errorf("instance ID %q may only have letters, digits and dashes", spec.ID)
	}
	spec.Created = time.Now().Round(0)
	spec.InternalIP = h.freeAddress(spec.ID)
	if err := h.store.create(spec, userData); err != nil {
		return Instance{}, fmt.Errorf("creating instance %q: %w", spec.ID, err)
	}
	return h.start(spec, nil).instance(), nil
}

// Get returns the instance with an ID.
func (h *Hypervisor) Get(id string) (Instance, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return Instance{}, false
	}
	return known.instance(), true
}

// Delete removes the instance with an ID and everything of it, and returns once its host has ended: what is reported
// as gone registers no Node any more. It succeeds when there is none.
func (h *Hypervisor) Delete(id string) error {
	known, err := h.remove(id)
	if err != nil || known == nil {
		return err
	}
	known.cancel()
	<-known.done
	return nil
}

// remove forgets an instance, and returns its host; nil if there is none.
func (h *Hypervisor) remove(id string) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return nil, nil
	}
	if err := h.store.remove(id); err != nil {
		return nil, fmt.Errorf("deleting instance %q: %w", id, err)
	}
	delete(h.hosts, id)
	return known, nil
}

// Restart pulls the plug of the host of the instance with an ID and puts it back: whatever made the host fall
// silent is over, and it boots again with the disk that it had. It does not wait, and does nothing when there is no
// instance.
func (h *Hypervisor) Restart(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return nil
	}
	spec := known.instance().Spec
	spec.Restarted = time.Now().Round(0)
	if err := h.store.save(spec); err != nil {
		return fmt.Errorf("restarting instance %q: %w", id, err)
	}
	known.cancel()
	h.start(spec, known.done)
	return nil
}

// Tag replaces the tags of the instance with an ID. It does nothing when there is none.
func (h *Hypervisor) Tag(id string, tags map[string]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return nil
	}
	spec := known.instance().Spec
	spec.Tags = tags
	if err := h.store.save(spec); err != nil {
		return fmt.Errorf("tagging instance %q: %w", id, err)
	}
	known.tag(tags)
	return nil
}

// List returns all instances in the order of their IDs.
func (h *Hypervisor) List() []Instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Instance, 0, len(h.hosts))
	for _, id := range slices.Sorted(maps.Keys(h.hosts)) {
		all = append(all, h.hosts[id].instance())
	}
	return all
}

// Notify makes changed be called after every change of an instance.
func (h *Hypervisor) Notify(changed func(Instance)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, changed)
}

// start runs a host once the one before it has ended, if there is one. The caller holds mu or is the only one to
// know h.
func (h *Hypervisor) start(spec Spec, before <-chan struct{}) *host {
	ctx, cancel := context.WithCancel(context.Background())
	started := &host{spec: spec, store: h.store, cancel: cancel, done: make(chan struct{}), tell: h.tell}
	h.hosts[spec.ID] = started
	go func() {
		defer close(started.done)
		if before != nil {
			<-before
		}
		started.run(ctx)
	}()
	return started
}

func (h *Hypervisor) tell(instance Instance) {
	h.mu.Lock()
	changed := slices.Clone(h.changed)
	h.mu.Unlock()
	for _, f := range changed {
		f(instance)
	}
}

// freeAddress chooses an address by the ID, or the next one that no other instance has.
func (h *Hypervisor) freeAddress(id string) string {
	taken := map[string]bool{}
	for _, known := range h.hosts {
		taken[known.spec.InternalIP] = true
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id))
	for at := hash.Sum32(); ; at++ {
		last := byte(at)
		address := net.IPv4(10, byte(at>>16), byte(at>>8), last).String()
		if last != 0 && last != 255 && !taken[address] {
			return address
		}
	}
}
