// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package host runs virtual machines with QEMU on the host of the provider. A state directory has one folder per machine:
// its specification, disks, seed and console. The processes outlive the provider: the next process that opens the
// directory takes them over.
//
// Processes are never identified by names or process IDs. Each inherits a lock on a file in the machine's folder and
// holds it until it ends, so the lock proves whether it runs; commands go through the control socket in the same folder.
// The package is independent of Machines; tags are opaque to it. The qemu driver calls it.
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

	"github.com/go-logr/logr"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/vm"
)

// Options configure a host.
type Options struct {
	// StateDir is the state directory.
	StateDir string
	// ImageDir is the operator's folder of images.
	ImageDir string
	// ImageLimits bound each download; a zero value is that of image.DefaultLimits.
	ImageLimits image.Limits
	// Programs is a folder that is searched for QEMU's programs before the PATH; empty means the PATH alone.
	Programs string
	// Logger receives what the host does outside of a call. The zero value discards it.
	Logger logr.Logger
}

// Host runs virtual machines.
type Host struct {
	options Options
	dir     *statedir.Dir[vm.Spec]
	name    string
	images  *image.Cache

	mu          sync.Mutex
	supervisors map[string]*supervisor
	changed     []func(Machine)
}

// ErrNotRunning means that a machine's guest is off or has not started yet.
var ErrNotRunning = errors.New("the machine is not running")

// Files in the folder of a machine, besides its specification and its user data.
const (
	deletingFile = "deleting"
	lockFile     = "lock"
	pidFile      = "qemu.pid"
	logFile      = "qemu.log"
	consoleFile  = "console.log"
	socketFile   = "qmp.sock"
	seedFile     = "seed.iso"
	diskFile     = "disk.qcow2"
)

// validID matches IDs that are safe as names of folders.
var validID = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// socketLimit is the maximum length of the path of a socket.
const socketLimit = 107

// Open locks a state directory for this process, takes over the running machines and starts those that should run.
func Open(options Options) (*Host, error) {
	dir, err := statedir.Open[vm.Spec](statedir.Options{Path: options.StateDir, Instances: "machines", SpecFile: "machine.json", Sync: true})
	if err != nil {
		return nil, fmt.Errorf("opening state directory %q: %w", options.StateDir, err)
	}
	h := &Host{
		options: options,
		dir:     dir,
		images: &image.Cache{
			Folder: options.ImageDir, Downloads: filepath.Join(filepath.Dir(dir.Path("", "")), "downloads"), Limits: options.ImageLimits,
		},
		supervisors: map[string]*supervisor{},
	}
	h.name, err = dir.Name()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("naming state directory %q: %w", options.StateDir, err), dir.Close())
	}
	specs, err := dir.Load()
	if err = errors.Join(err, h.images.DeletePartial()); err != nil {
		return nil, errors.Join(fmt.Errorf("reading state directory %q: %w", options.StateDir, err), dir.Close())
	}
	for _, spec := range specs {
		h.supervise(spec)
	}
	return h, nil
}

// Name is unique to this host's state directory and stable.
func (h *Host) Name() string { return h.name }

// Close ends the supervision of the machines, which keep running.
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
	return h.dir.Close()
}

// Create stores the machine with spec.ID and starts its creation, or returns the one that exists. It does not wait. It
// fails with vm.FieldError when this host cannot create such a machine.
func (h *Host) Create(spec vm.Spec, userData []byte) (Machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.supervisors[spec.ID]; ok {
		return known.machine(), nil
	}
	if err := h.check(spec); err != nil {
		return Machine{}, err
	}
	spec.Created = time.Now().Round(0)
	if err := h.dir.Create(spec.ID, spec, userData); err != nil {
		return Machine{}, fmt.Errorf("storing machine %q: %w", spec.ID, err)
	}
	return h.supervise(spec).machine(), nil
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

// Image returns the image of a machine: a path in the folder of images, or a URL. It downloads nothing, and fails with
// vm.FieldError when the folder has no such file, or when the image is on this host and must not be used.
func (h *Host) Image(of vm.Spec) (string, error) {
	path, err := h.images.Find(of.Image)
	if err != nil {
		return "", &vm.FieldError{Field: "spec.image.path", Err: err}
	}
	if path != "" {
		err = vm.CheckImage(path, of.ImageFormat)
	}
	return cmp.Or(of.Image.Path, of.Image.URL), err
}

// Retag replaces the tags of a machine. It reports false when there is none.
func (h *Host) Retag(id string, tags map[string]string) (bool, error) {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return false, nil
	}
	if err := known.retag(tags); err != nil {
		return true, fmt.Errorf("storing the tags of machine %q: %w", id, err)
	}
	return true, nil
}

// Delete starts the shutdown and deletion of a machine. It does not wait, and succeeds when there is none.
func (h *Host) Delete(id string) error {
	h.mu.Lock()
	known, ok := h.supervisors[id]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	if err := h.markDeleting(id); err != nil {
		return fmt.Errorf("marking machine %q for deletion: %w", id, err)
	}
	known.startDeletion()
	return nil
}

// Restart resets a running machine. It fails with ErrNotRunning when the guest is off or the connection to its process is
// not established yet, and does nothing when there is no machine.
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

// Notify registers a function that is called after every change of a machine.
func (h *Host) Notify(changed func(Machine)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, changed)
}

// Console is the path of a machine's console log, which is bounded: the older part has the suffix ".1".
func (h *Host) Console(id string) string { return h.dir.Path(id, consoleFile) }

// supervise starts a supervisor. The caller holds mu or has the only reference to h.
func (h *Host) supervise(spec vm.Spec) *supervisor {
	s := newSupervisor(spec, h)
	h.supervisors[spec.ID] = s
	go s.run()
	return s
}

// remove removes a deleted machine.
func (h *Host) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.supervisors, id)
}

// markDeleting makes the deletion continue after a restart of the provider.
func (h *Host) markDeleting(id string) error {
	if !h.deletingSince(id).IsZero() {
		return nil
	}
	return h.dir.Replace(id, deletingFile, nil)
}

// deletingSince is when the deletion was requested; zero if it was not.
func (h *Host) deletingSince(id string) time.Time {
	info, err := os.Stat(h.dir.Path(id, deletingFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (h *Host) notify(m Machine) {
	h.mu.Lock()
	changed := slices.Clone(h.changed)
	h.mu.Unlock()
	for _, f := range changed {
		f(m)
	}
}

// check fails for a machine that the host cannot create, as far as that is known without a download.
func (h *Host) check(spec vm.Spec) error {
	if !validID.MatchString(spec.ID) {
		return fmt.Errorf("machine ID %q may only have letters, digits and dashes", spec.ID)
	}
	if socket := h.dir.Path(spec.ID, socketFile); len(socket) > socketLimit {
		return fmt.Errorf("the state directory's path is %d bytes too long for a socket in it", len(socket)-socketLimit)
	}
	if _, err := h.program(vm.Program(spec.Architecture)); err != nil {
		return &vm.FieldError{Field: "spec.architecture", Err: err}
	}
	if _, err := h.Image(spec); err != nil {
		return err
	}
	for field, source := range map[string]image.Source{
		"spec.kernel.image.path":  spec.Kernel,
		"spec.kernel.initrd.path": spec.Initrd, "spec.firmware.path": spec.Firmware,
	} {
		if _, err := h.images.Find(source); err != nil {
			return &vm.FieldError{Field: field, Err: err}
		}
	}
	if spec.Bridge == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", spec.Bridge, "bridge")); err != nil {
		return &vm.FieldError{Field: "spec.network.bridge", Err: fmt.Errorf("the host has no bridge %q", spec.Bridge)}
	}
	return nil
}

// program returns the path of one of QEMU's programs.
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

// pause waits, and returns false when ctx ends first.
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
