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

	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/qcow2"
	"drover.io/infra-providers/qemu/qmp"
)

// raise returns a connection to the machine's process, which it starts unless it runs.
func (s *supervisor) boot(ctx context.Context) (*qmp.Client, error) {
	lock, err := flock(s.path(lockFile))
	switch {
	case errors.Is(err, errLocked): // it runs: an earlier provider started it
	case err != nil:
		return nil, err
	default:
		err := s.start(ctx, lock)
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client, err := qmp.Dial(ctx, s.path(socketFile))
	if err != nil {
		return nil, fmt.Errorf("connecting to its process: %w", err)
	}
	return client, nil
}

// start makes what is missing and starts the process, which inherits the lock. It returns once the process has
// everything open and serves its control socket.
func (s *supervisor) start(ctx context.Context, lock *os.File) error {
	at, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	spec := s.spec
	err = s.launch(spec, at, lock)
	if err != nil && spec.Acceleration == "Auto" {
		// Some hosts have a /dev/kvm that does not work, on which QEMU ends instead of going on without.
		spec.Acceleration = "TCG"
		err = s.launch(spec, at, lock)
	}
	return err
}

// launch starts QEMU, which returns once its daemon runs.
func (s *supervisor) launch(spec Spec, at files, lock *os.File) error {
	// What an earlier process left must not be taken for the next one's.
	for _, stale := range []string{pidFile, socketFile} {
		if err := os.Remove(s.path(stale)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path, err := s.host.program(program(spec.Architecture))
	if err != nil {
		return err
	}
	output, err := os.OpenFile(s.path(logFile), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer output.Close() //nolint:errcheck // only read from now on
	command := exec.Command(path, arguments(spec, at)...)
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{lock}
	if err := command.Run(); err != nil {
		return fmt.Errorf("starting QEMU: %s", complaint(s.path(logFile), err))
	}
	return nil
}

// prepare makes the files of a machine that are missing and says where all are.
func (s *supervisor) prepare(ctx context.Context) (files, error) {
	at := files{
		pid: s.path(pidFile), socket: s.path(socketFile), seed: s.path(seedFile), userData: s.path(userDataFile),
	}
	for _, want := range []struct {
		source image.Source
		path   *string
	}{
		{s.spec.Image, &at.image}, {s.spec.Kernel, &at.kernel}, {s.spec.Initrd, &at.initrd}, {s.spec.Firmware, &at.firmware},
	} {
		if !want.source.Given() {
			continue
		}
		if want.source.URL != "" {
			s.now(Starting, "fetching "+want.source.URL)
		}
		var err error
		if *want.path, err = s.host.images.Ensure(ctx, want.source); err != nil {
			return at, err
		}
	}
	if err := inspect(at.image, s.spec.ImageFormat); err != nil {
		return at, err
	}
	if err := s.makeDisks(ctx, &at); err != nil {
		return at, err
	}
	if s.spec.Ignition || exists(at.seed) {
		return at, nil
	}
	userData, err := os.ReadFile(at.userData)
	if err == nil {
		err = writeSeed(at.seed, s.spec, userData)
	}
	if err != nil {
		return at, fmt.Errorf("writing the seed: %w", err)
	}
	return at, nil
}

// makeDisks makes the overlay over the image and the empty disks. A disk that exists is never made again: it may
// hold what the guest wrote.
func (s *supervisor) makeDisks(ctx context.Context, at *files) error {
	at.disks = []string{s.path(diskFile)}
	if err := s.makeDisk(ctx, at.disks[0], "-F", s.spec.ImageFormat, "-b", at.image); err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	if err := s.growDisk(ctx, at.disks[0]); err != nil {
		return fmt.Errorf("growing the disk: %w", err)
	}
	for i, size := range s.spec.Disks {
		path := s.path(fmt.Sprintf("disk-%d.qcow2", i+1))
		at.disks = append(at.disks, path)
		if err := s.makeDisk(ctx, path, strconv.FormatInt(size, 10)); err != nil {
			return fmt.Errorf("making disk %d: %w", i+1, err)
		}
	}
	return nil
}

// makeDisk makes a disk aside and renames it. Options follow the path if they are a size alone.
func (s *supervisor) makeDisk(ctx context.Context, path string, how ...string) error {
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
	if err := s.image(ctx, args...); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// growDisk gives the first disk its size, where that is more than the image's. Growing twice is growing once.
func (s *supervisor) growDisk(ctx context.Context, path string) error {
	if s.spec.DiskBytes == 0 {
		return nil
	}
	header, err := qcow2.Read(path)
	if err != nil || header.Size >= s.spec.DiskBytes {
		return err
	}
	return s.image(ctx, "resize", "-q", "-f", "qcow2", path, strconv.FormatInt(s.spec.DiskBytes, 10))
}

// image runs qemu-img.
func (s *supervisor) image(ctx context.Context, args ...string) error {
	path, err := s.host.program("qemu-img")
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return errors.New(said(string(output), err))
	}
	return nil
}

// complaint is the last thing that a program wrote, or how it ended.
func complaint(log string, err error) string {
	content, _ := os.ReadFile(log) // without it there is still err
	return said(string(content), err)
}

func said(output string, err error) string {
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
