// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hypervisor is the simulated cloud. A state directory has one folder per instance, and one simulated host runs
// per folder. The folders outlive the process: the next process that opens the directory continues the hosts with their
// user data and certificates. The package is independent of Machines; tags are opaque to it. The sim driver calls it.
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

	"drover.io/infra-providers/internal/statedir"
)

// Spec describes an instance. Only its tags and Restarted change.
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
	HangsAfter   time.Duration       `json:"hangsAfter,omitempty"`

	// Created and InternalIP are set by Create, Restarted by the last Restart.
	Created    time.Time `json:"created"`
	InternalIP string    `json:"internalIP"`
	Restarted  time.Time `json:"restarted,omitzero"`
}

// Instance is the current state of an instance.
type Instance struct {
	Spec
	// Running is false while it boots; BootsIn is the remaining time.
	Running bool
	BootsIn time.Duration
	// Joined, Failed and Message are the state of the host's bootstrap.
	Joined, Failed bool
	Message        string
}

// Hypervisor runs simulated hosts.
type Hypervisor struct {
	dir  *statedir.Dir[Spec]
	name string

	mu      sync.Mutex
	hosts   map[string]*host
	changed []func(Instance)
}

// validID matches IDs that are safe as names of folders.
var validID = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Open locks a state directory for this process and starts the hosts in it. It fails while another process holds the
// lock.
func Open(path string) (*Hypervisor, error) {
	dir, err := statedir.Open[Spec](statedir.Options{Path: path, SpecFile: "instance.json"})
	if err != nil {
		return nil, fmt.Errorf("opening state directory %q: %w", path, err)
	}
	name, err := dir.Name()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("naming state directory %q: %w", path, err), dir.Close())
	}
	h := &Hypervisor{dir: dir, name: name, hosts: map[string]*host{}}
	specs, err := dir.Load()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading state directory %q: %w", path, err), dir.Close())
	}
	for _, spec := range specs {
		h.start(spec, nil)
	}
	return h, nil
}

// Name is unique to this hypervisor's state directory and stable.
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
	return h.dir.Close()
}

// Create creates the instance with spec.ID and starts its host, or returns the one that exists.
func (h *Hypervisor) Create(spec Spec, userData []byte) (Instance, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.hosts[spec.ID]; ok {
		return known.instance(), nil
	}
	if !validID.MatchString(spec.ID) {
		return Instance{}, fmt.Errorf("instance ID %q may only have letters, digits and dashes", spec.ID)
	}
	spec.Created = time.Now().Round(0)
	spec.InternalIP = h.freeAddress(spec.ID)
	if err := h.dir.Create(spec.ID, spec, userData); err != nil {
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

// ConsoleFile is the path of the output of an instance's host, which is bounded: the older part has the suffix ".1".
func (h *Hypervisor) ConsoleFile(id string) string { return h.dir.Path(id, consoleFile) }

// Delete deletes the instance with an ID, and returns once its host has ended, so that a deleted instance registers no
// Node. It succeeds when there is none.
func (h *Hypervisor) Delete(id string) error {
	known, err := h.remove(id)
	if err != nil || known == nil {
		return err
	}
	known.cancel()
	<-known.done
	return nil
}

// remove deletes the folder of an instance, and returns its host; nil if there is none.
func (h *Hypervisor) remove(id string) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return nil, nil
	}
	if err := h.dir.Delete(id); err != nil {
		return nil, fmt.Errorf("deleting instance %q: %w", id, err)
	}
	delete(h.hosts, id)
	return known, nil
}

// Restart restarts the host of the instance with an ID, which boots again from its disk. A simulated hang ends. It does not
// wait, and does nothing when there is no instance.
func (h *Hypervisor) Restart(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[id]
	if !ok {
		return nil
	}
	spec := known.instance().Spec
	spec.Restarted = time.Now().Round(0)
	if err := h.dir.Save(id, spec); err != nil {
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
	if err := h.dir.Save(id, spec); err != nil {
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

// Notify registers a function that is called after every change of an instance.
func (h *Hypervisor) Notify(changed func(Instance)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, changed)
}

// start runs a host, after the end of its earlier run if there is one. The caller holds mu or has the only reference to h.
func (h *Hypervisor) start(spec Spec, earlier <-chan struct{}) *host {
	ctx, cancel := context.WithCancel(context.Background())
	started := &host{spec: spec, dir: h.dir, cancel: cancel, done: make(chan struct{}), notify: h.notify}
	h.hosts[spec.ID] = started
	go func() {
		defer close(started.done)
		if earlier != nil {
			<-earlier
		}
		started.run(ctx)
	}()
	return started
}

func (h *Hypervisor) notify(instance Instance) {
	h.mu.Lock()
	changed := slices.Clone(h.changed)
	h.mu.Unlock()
	for _, f := range changed {
		f(instance)
	}
}

// freeAddress returns the address that derives from the ID, or the next one that no other instance has.
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
