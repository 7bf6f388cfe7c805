// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RemoveLeftovers removes containers whose name is the prefix and the number of a process that was killed before it could
// stop them: a container outlives its systemd-nspawn.
func RemoveLeftovers(prefix string) error {
	networks, err := filepath.Glob("/run/netns/" + prefix + "*")
	if err != nil {
		return err
	}
	var errs []error
	for _, network := range networks {
		name := filepath.Base(network)
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(name, prefix)); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, remove(name))
		}
	}
	return errors.Join(errs...)
}

// remove removes the processes, the control groups and the network of a container.
func remove(name string) error {
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
	errs := []error{err}
	for _, group := range groups {
		errs = append(errs, kill(group), removeGroup(group))
	}
	if output, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("deleting the network: %w: %s", err, output))
	}
	return errors.Join(errs...)
}

// kill ends the processes in a control group and in those below it.
func kill(group string) error {
	return filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || (err == nil && entry.Name() != "cgroup.procs") {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		for _, number := range strings.Fields(string(content)) {
			if pid, bad := strconv.Atoi(number); bad == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended meanwhile
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return err
	})
}

// removeGroup removes a cgroup with those below it, once their processes have ended.
func removeGroup(group string) error {
	var err error
	for range 50 {
		err = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
		if _, gone := os.Stat(group); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("removing control group %s: it is in use (%w)", group, err)
}
