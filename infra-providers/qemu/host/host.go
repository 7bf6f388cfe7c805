// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package host runs virtual machines under QEMU on the host that the provider runs on. It keeps one folder per
// machine in a state directory: what the machine is, its disks, its seed, its console. The processes outlive
// the provider, as virtual machines outlive a controller: whoever opens the directory again takes them over.
//
// Whose process is whose is never guessed from names or numbers. Each process inherits a lock on a file in the
// machine's folder and keeps it to its end, so the kernel says whether it lives; what to do it is told through the
// control socket in the same folder. The package knows nothing of Machines; tags are opaque to it. The qemu driver
// calls it.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"drover.io/infra-providers/qemu/image"
)

// Options say where a host keeps what.
type Options struct {
	// StateDir keeps the machines.
	StateDir string
	// ImageDir is the operator's folder of images.
	ImageDir string
	// ImageLimits bound each download; a zero in them is that of image.DefaultLimits.
	ImageLimits image.Limits
	// Programs is a folder to look for QEMU's programs in before the PATH; empty is the PATH alone.
	Programs string
}

// Host runs virtual machines.
type Host struct {
	options Options
	store   *store
	name    string
	images  *image.Cache

	mu          sync.Mutex
	supervisors map[string]*supervisor
	changed     []func(Machine)
}

// ErrNotRunning means that a machine's guest is off, or is not up yet.
var ErrNotRunning = errors.New("it does not run")

// plain IDs are safe as names of folders.
var plain = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// socketLimit is what the kernel takes as the path of a socket.
const socketLimit = 107

// Open takes a state directory for this process, takes over the machines that run and starts those that should.
func Open(options Options) (*Host, error) {
	store, err := openStore(options.StateDir)
	if err != nil {
		return nil, fmt.Errorf("opening state directory %q: %w", options.StateDir, err)
	}
	h := &Host{
		options: options,
		store:   store,
		images: &image.Cache{
			Folder: options.ImageDir, Downloads: filepath.Join(filepath.Dir(store.dir), "downloads"), Limits: options.ImageLimits,
		},
		supervisors: map[string]*supervisor{},
	}
	h.name, err = store.name()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("naming state directory %q: %w", options.StateDir, err), store.close())
	}
	specs, err := store.load()
	if err = errors.Join(err, h.images.Sweep()); err != nil {
		return nil, errors.Join(fmt.Errorf("reading state directory %q: %w", options.StateDir, err), store.close())
	}
	for _, spec := range specs {
		h.keep(spec)
	}
	return h, nil
}

// Name tells this host's state directory from every other one, and stays the same as long as the directory does.
func (h *Host) Name() string { return h.name }

// Close lets go of the machines, which run on.
func (h *Host) Close() error {
	h.mu.Lock()
	supervisors := slices.Collect(maps.Values(h.supervisors))
	h.mu.Unlock()
	for _, s := range supervisors {
		s.stop()
	}
	for _, s := range supervisors {
		<-s.done
	}
	return h.store.close()
}

// Create writes down the machine with spec.ID and has it made, or returns the one that exists. It does not wait.
// It fails with a FieldError when this host cannot make such a machine.
func (h *Host) Create(spec Spec, userData []byte) (Machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.supervisors[spec.ID]; ok {
		return known.machine(), nil
	}
	if err := h.check(spec); err != nil {
		return Machine{}, err
	}
	spec.Created = time.Now().Round(0)
	if err := h.store.create(spec, userData); err != nil {
		return Machine{}, fmt.Errorf("writing down machine %q: %w", spec.ID, err)
	}
	return h.keep(spec).machine(), nil
}

// Get returns the machine with an ID.
func (h *Host) Get(id string) (Machine, bool) {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return Machine{}, false
	}
	return known.machine(), true
}

// Image returns what a machine would boot from: a path in the folder of images, or a URL. It downloads nothing,
// and fails with a FieldError when the folder has no such file, or when the image is here and must not be used.
func (h *Host) Image(of Spec) (string, error) {
	path, err := h.images.Find(of.Image)
	if err != nil {
		return "", &FieldError{Field: "spec.image.path", Err: err}
	}
	if path != "" {
		err = inspect(path, of.ImageFormat)
	}
	return cmp.Or(of.Image.Path, of.Image.URL), err
}

// Retag gives a machine other tags. It reports false when there is none.
func (h *Host) Retag(id string, tags map[string]string) (bool, error) {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return false, nil
	}
	if err := known.retag(tags); err != nil {
		return true, fmt.Errorf("writing down the tags of machine %q: %w", id, err)
	}
	return true, nil
}

// Delete has a machine shut down and removed. It does not wait, and succeeds when there is none.
func (h *Host) Delete(id string) error {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	if err := h.store.markDeleting(id); err != nil {
		return fmt.Errorf("marking machine %q for deletion: %w", id, err)
	}
	known.end()
	return nil
}

// Restart resets a machine that runs, as its reset button would. It fails with ErrNotRunning when the guest is off,
// or its process does not serve us yet, and does nothing when there is no machine.
func (h *Host) Restart(ctx context.Context, id string) error {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	if err := known.reset(ctx); err != nil {
		return fmt.Errorf("resetting machine %q: %w", id, err)
	}
	return nil
}

// List returns all machines in the order of their IDs.
func (h *Host) List() []Machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Machine, 0, len(h.supervisors))
	for _, id := range slices.Sorted(maps.Keys(h.supervisors)) {
		all = append(all, h.supervisors[id].machine())
	}
	return all
}

// Notify makes changed be called after every change of a machine.
func (h *Host) Notify(changed func(Machine)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, changed)
}

// Console is the path of a machine's console log, which is bounded: the part before it has the same path and ".1".
func (h *Host) Console(id string) string { return h.store.path(id, consoleFile) }

// keep starts a keeper. The caller holds mu or is the only one to know h.
func (h *Host) keep(spec Spec) *supervisor {
	s := newSupervisor(spec, h)
	h.supervisors[spec.ID] = s
	go s.run()
	return s
}

// forget drops a machine of which nothing is left.
func (h *Host) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.supervisors, id)
}

func (h *Host) tell(m Machine) {
	h.mu.Lock()
	changed := slices.Clone(h.changed)
	h.mu.Unlock()
	for _, f := range changed {
		f(m)
	}
}

// check finds what can be found wrong at once.
func (h *Host) check(spec Spec) error {
	if !plain.MatchString(spec.ID) {
		return fmt.Errorf("machine ID %q may only have letters, digits and dashes", spec.ID)
	}
	if socket := h.store.path(spec.ID, socketFile); len(socket) > socketLimit {
		return fmt.Errorf("the state directory's path is %d bytes too long for a socket in it", len(socket)-socketLimit)
	}
	if _, err := h.program(program(spec.Architecture)); err != nil {
		return &FieldError{Field: "spec.architecture", Err: err}
	}
	if _, err := h.Image(spec); err != nil {
		return err
	}
	for field, source := range map[string]image.Source{
		"spec.kernel.image.path":  spec.Kernel,
		"spec.kernel.initrd.path": spec.Initrd, "spec.firmware.path": spec.Firmware,
	} {
		if _, err := h.images.Find(source); err != nil {
			return &FieldError{Field: field, Err: err}
		}
	}
	if spec.Bridge == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", spec.Bridge, "bridge")); err != nil {
		return &FieldError{Field: "spec.network.bridge", Err: fmt.Errorf("the host has no bridge %q", spec.Bridge)}
	}
	return nil
}

// program finds one of QEMU's programs.
func (h *Host) program(name string) (string, error) {
	if h.options.Programs != "" {
		if path, err := exec.LookPath(filepath.Join(h.options.Programs, name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the host has no %s", name)
	}
	return path, nil
}

// pause waits, or returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
