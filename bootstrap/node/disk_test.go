// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mountShims stand in for what needs a disk: a mounted file system is a link to a folder. The calls are written down.
const mountShims = `
mountpoint() { [ -L "$2" ]; }
mount() { rmdir "$2"; ln -s "$1" "$2"; }
umount() { rm "$1"; }
systemctl() { echo "systemctl $*"; }
`

func TestFilesBelowAMountPointAreMoved(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		disk, mounted bool
		fails         bool
		calls         string
		moved         string
	}{
		"it mounts the disk and copies the folder": {disk: true, calls: "systemctl enable --quiet a.mount\nsystemctl start a.mount\n", moved: "a file"},
		"it leaves alone what is mounted already":  {disk: true, mounted: true},
		"it fails without the disk":                {fails: true, calls: "bootstrap: there is no DISK: its disk is missing or holds something else\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			disk, folder := filepath.Join(root, "disk"), filepath.Join(root, "folder")
			if c.disk {
				must(t, os.Mkdir(disk, 0o755))
			}
			if c.mounted {
				must(t, os.Symlink(root, folder))
			} else {
				must(t, os.Mkdir(folder, 0o755))
				must(t, os.WriteFile(filepath.Join(folder, "file"), []byte("a file"), 0o600))
			}
			function := strings.ReplaceAll(mountFunction, "/run/drover/disk", filepath.Join(root, "aside"))
			out, err := bash(t, mountShims+function+"\nmount_disk a.mount "+folder+" "+disk)
			if (err != nil) != c.fails {
				t.Errorf("err = %v", err)
			}
			if diff := cmp.Diff(c.calls, strings.ReplaceAll(out, disk, "DISK")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			moved, _ := os.ReadFile(filepath.Join(disk, "file"))
			if string(moved) != c.moved {
				t.Errorf("on the disk is %q, want %q", moved, c.moved)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
