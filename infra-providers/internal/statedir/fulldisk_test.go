// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package statedir_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"drover.io/infra-providers/internal/statedir"
)

// fullDisk names the folder of a small file system to the test that runs in it.
const fullDisk = "DROVER_TEST_FULL_DISK"

// TestInstanceOnAFullDiskCanBeDeleted: the disks of guests may fill the disk of the host, and their deletion is what frees it.
// It runs once more in a mount namespace, with a file system that has few inodes.
func TestInstanceOnAFullDiskCanBeDeleted(t *testing.T) {
	t.Parallel()
	folder := os.Getenv(fullDisk)
	if folder != "" {
		deleteOnAFullDisk(t, folder)
		return
	}
	folder = t.TempDir()
	isolated := []string{"--map-root-user", "--mount", "sh", "-ec", `mount -t tmpfs -o nr_inodes=32 none "$0"; exec "$@"`, folder}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(isolated, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v: %s", err, out)
	}
	command := exec.CommandContext(t.Context(), "unshare", append(isolated, os.Args[0], "-test.run=^"+t.Name()+"$")...)
	command.Env = append(os.Environ(), fullDisk+"="+folder)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func deleteOnAFullDisk(t *testing.T, folder string) {
	dir := open(t, statedir.Options{Path: folder, Instances: "machines"})
	if err := dir.Create("a", spec{ID: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil; i++ {
		err = os.Mkdir(filepath.Join(folder, strconv.Itoa(i)), 0o700)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := dir.Delete("a"); err != nil {
		t.Error(err)
	}
	wantSpecs(t, dir)
	if err := dir.Create("b", spec{ID: "b"}, nil); err != nil {
		t.Errorf("the deletion freed nothing: %v", err)
	}
}
