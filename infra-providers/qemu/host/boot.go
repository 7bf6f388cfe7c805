// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/go-logr/logr"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/qcow2"
	"drover.io/infra-providers/qemu/qmp"
	"drover.io/infra-providers/qemu/vm"
)

// connect returns a connection to the machine's process, which it starts unless it runs.
func (s *supervisor) connect(ctx context.Context) (*qmp.Client, error) {
	lock, err := statedir.Lock(s.path(lockFile))
	switch {
	case errors.Is(err, statedir.ErrLocked): // it runs, started by an earlier provider
	case err != nil:
		return nil, err
	default:
		err := s.start(ctx, lock)
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	client, err := qmp.Dial(ctx, s.path(socketFile))
	if err != nil {
		return nil, fmt.Errorf("connecting to its process: %w", err)
	}
	return client, nil
}

// start creates missing files and starts the process, which inherits the lock. It returns once the process has opened all
// files and serves its control socket.
func (s *supervisor) start(ctx context.Context, lock *os.File) error {
	at, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	spec := s.spec
	err = s.launch(spec, at, lock)
	if err != nil && spec.Acceleration == "Auto" {
		// On some hosts /dev/kvm does not work, and QEMU exits instead of continuing without it.
		spec.Acceleration = "TCG"
		err = s.launch(spec, at, lock)
	}
	return err
}

// launch starts QEMU, which returns once its daemon runs.
func (s *supervisor) launch(spec vm.Spec, at vm.Files, lock *os.File) error {
	// Files of an earlier process must not be taken for those of the next one.
	for _, stale := range []string{pidFile, socketFile} {
		if err := os.Remove(s.path(stale)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path, err := s.host.program(vm.Program(spec.Architecture))
	if err != nil {
		return err
	}
	output, err := os.OpenFile(s.path(logFile), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer output.Close() //nolint:errcheck // only read from now on
	command := exec.Command(path, vm.Arguments(spec, at)...)
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{lock}
	if err := command.Run(); err != nil {
		return fmt.Errorf("starting QEMU: %s", lastLogLine(s.path(logFile), err))
	}
	logr.FromContextOrDiscard(s.machineCtx).Info("started QEMU process")
	return nil
}

// prepare creates the missing files of a machine and returns the paths of all.
func (s *supervisor) prepare(ctx context.Context) (vm.Files, error) {
	at := vm.Files{
		PID: s.path(pidFile), Socket: s.path(socketFile), Seed: s.path(seedFile), UserData: s.host.dir.UserData(s.spec.ID),
	}
	for _, want := range []struct {
		source image.Source
		path   *string
	}{
		{s.spec.Image, &at.Image}, {s.spec.Kernel, &at.Kernel}, {s.spec.Initrd, &at.Initrd}, {s.spec.Firmware, &at.Firmware},
	} {
		if !want.source.Given() {
			continue
		}
		if want.source.URL != "" {
			s.setPhase(Starting, "downloading "+want.source.URL)
		}
		var err error
		if *want.path, err = s.host.images.Ensure(ctx, want.source); err != nil {
			return at, err
		}
	}
	if err := vm.CheckImage(at.Image, s.spec.ImageFormat); err != nil {
		return at, err
	}
	if err := s.createDisks(ctx, &at); err != nil {
		return at, err
	}
	if s.spec.Ignition || exists(at.Seed) {
		return at, nil
	}
	userData, err := os.ReadFile(at.UserData)
	if err == nil {
		err = vm.WriteSeed(at.Seed, s.spec, userData)
	}
	if err != nil {
		return at, fmt.Errorf("writing the seed: %w", err)
	}
	return at, nil
}

// createDisks creates the overlay of the image and the empty disks. An existing disk is never created again: it may have
// data of the guest.
func (s *supervisor) createDisks(ctx context.Context, at *vm.Files) error {
	at.Disks = []string{s.path(diskFile)}
	if err := s.createDisk(ctx, at.Disks[0], "-F", s.spec.ImageFormat, "-b", at.Image); err != nil {
		return fmt.Errorf("creating the disk: %w", err)
	}
	if err := s.growDisk(ctx, at.Disks[0]); err != nil {
		return fmt.Errorf("growing the disk: %w", err)
	}
	for i, size := range s.spec.Disks {
		path := s.path(fmt.Sprintf("disk-%d.qcow2", i+1))
		at.Disks = append(at.Disks, path)
		if err := s.createDisk(ctx, path, strconv.FormatInt(size, 10)); err != nil {
			return fmt.Errorf("creating disk %d: %w", i+1, err)
		}
	}
	return nil
}

// createDisk creates a disk under a temporary name and renames it. A single option is the size, which follows the path.
func (s *supervisor) createDisk(ctx context.Context, path string, how ...string) error {
	if exists(path) {
		return nil
	}
	partial := path + ".partial"
	args := []string{"create", "-q", "-f", "qcow2"}
	if len(how) == 1 {
		args = append(args, partial, how[0])
	} else {
		args = append(append(args, how...), partial)
	}
	if err := s.qemuImg(ctx, args...); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// growDisk grows the first disk to its size if that is more than the image's. It is idempotent.
func (s *supervisor) growDisk(ctx context.Context, path string) error {
	if s.spec.DiskBytes == 0 {
		return nil
	}
	header, err := qcow2.Read(path)
	if err != nil || header.Size >= s.spec.DiskBytes {
		return err
	}
	return s.qemuImg(ctx, "resize", "-q", "-f", "qcow2", path, strconv.FormatInt(s.spec.DiskBytes, 10))
}

// qemuImg runs qemu-img.
func (s *supervisor) qemuImg(ctx context.Context, args ...string) error {
	path, err := s.host.program("qemu-img")
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return errors.New(lastLine(string(output), err))
	}
	return nil
}

// lastLogLine returns the last line that a program wrote, or its exit status.
func lastLogLine(log string, err error) string {
	content, _ := os.ReadFile(log) // without it there is still err
	return lastLine(string(content), err)
}

// lastLine returns the last line of an output without the name of the program, or the error.
func lastLine(output string, err error) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if last := lines[len(lines)-1]; last != "" {
		_, words, found := strings.Cut(last, ": ")
		if found {
			return words
		}
		return last
	}
	return err.Error()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
