// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/google/go-cmp/cmp"
	"github.com/vincent-petithory/dataurl"

	"drover.io/bootstrap/node"
)

func render(t *testing.T, n *node.Node) types.Config {
	t.Helper()
	out, err := Render(n)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{}
	if err := json.Unmarshal(out, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

func fileAt(t *testing.T, config types.Config, path string) types.File {
	t.Helper()
	for _, f := range config.Storage.Files {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("there is no %s", path)
	return types.File{}
}

// contentOf returns what Ignition writes.
func contentOf(t *testing.T, resource types.Resource) string {
	t.Helper()
	decoded, err := dataurl.DecodeString(*resource.Source)
	if err != nil {
		t.Fatal(err)
	}
	if resource.Compression == nil {
		return string(decoded.Data)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(decoded.Data))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestContentsTakeTheShortestForm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content, prefix string
		compressed      bool
	}{
		"nothing":             {"", "data:,", false},
		"plain words":         {"abc", "data:,abc", false},
		"what must be quoted": {"%%%%%%%%%%%%%%", "data:;base64,", false},
		"bytes":               {"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", "data:;base64,", false},
		"just below":          {strings.Repeat("x", compressFrom-1), "data:,xxx", false},
		"a long file":         {strings.Repeat("x", compressFrom), "data:;base64,", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := contents([]byte(test.content))
			if !strings.HasPrefix(*got.Source, test.prefix) || (got.Compression != nil) != test.compressed {
				t.Errorf("it is written as %.40s", *got.Source)
			}
			if back := contentOf(t, got); back != test.content {
				t.Errorf("it becomes %q", back)
			}
		})
	}
}

func TestFileHasModeAndOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode        fs.FileMode
		owner       string
		want        int
		user, group string
	}{
		"of root by default":    {0o644, "", 0o644, "", ""},
		"of a user":             {0o600, "app", 0o600, "app", ""},
		"of a user and a group": {0o600, "app:adm", 0o600, "app", "adm"},
		"of no user":            {0o600, ":adm", 0o600, "", ""},
		"with other bits":       {0o4755, "", 0o4755, "", ""},
		"without its type":      {0o755 | fs.ModeDir, "", 0o755, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := file(node.File{Path: "/a", Mode: test.mode, Owner: test.owner})
			text := func(s *string) string {
				if s == nil {
					return ""
				}
				return *s
			}
			if *got.Mode != test.want || text(got.User.Name) != test.user || text(got.Group.Name) != test.group || !*got.Overwrite || got.Path != "/a" {
				t.Errorf("mode %o, user %q, group %q, overwrite %t", *got.Mode, text(got.User.Name), text(got.Group.Name), *got.Overwrite)
			}
		})
	}
}

func TestNodeIsWritten(t *testing.T) {
	t.Parallel()
	config := render(t, &node.Node{
		Hostname: "m1",
		Users: []node.User{
			{Name: "ops", Groups: []string{"docker", "sudo"}, Sudo: "ALL=(ALL) NOPASSWD:ALL", Shell: "/bin/bash", SSHAuthorizedKeys: []string{"ssh-ed25519 A", "ssh-ed25519 B"}},
			{Name: "app", Shell: "/sbin/nologin"},
		},
		Units: []node.Unit{
			{Name: "a.service", Content: "[Unit]\n", Enabled: true, DropIns: []node.DropIn{{Name: "x.conf", Content: "[Service]\n"}}},
			{Name: "b.service", DropIns: []node.DropIn{{Name: "y.conf", Content: "[Service]\n"}}},
		},
	})
	if got := contentOf(t, fileAt(t, config, "/etc/hostname").Contents); got != "m1\n" {
		t.Errorf("the host name is %q", got)
	}
	sudoers := fileAt(t, config, "/etc/sudoers.d/ops")
	if got := contentOf(t, sudoers.Contents); got != "ops ALL=(ALL) NOPASSWD:ALL\n" || *sudoers.Mode != 0o440 {
		t.Errorf("sudo permits %q with mode %o", got, *sudoers.Mode)
	}
	for _, f := range config.Storage.Files {
		if f.Path == "/etc/sudoers.d/app" {
			t.Error("a user without sudo has a file of it")
		}
	}
	want := []types.PasswdUser{
		{Name: "ops", Shell: new("/bin/bash"), Groups: []types.Group{"docker", "sudo"}, SSHAuthorizedKeys: []types.SSHAuthorizedKey{"ssh-ed25519 A", "ssh-ed25519 B"}},
		{Name: "app", Shell: new("/sbin/nologin")},
	}
	if diff := cmp.Diff(want, config.Passwd.Users); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	units := []types.Unit{
		{Name: "a.service", Contents: new("[Unit]\n"), Enabled: new(true), Dropins: []types.Dropin{{Name: "x.conf", Contents: new("[Service]\n")}}},
		{Name: "b.service", Dropins: []types.Dropin{{Name: "y.conf", Contents: new("[Service]\n")}}},
		{Name: node.BootstrapUnit, Contents: new(bootstrapUnit), Enabled: new(true)},
	}
	if diff := cmp.Diff(units, config.Systemd.Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

// TestUnitWithALongLineIsWritten: Ignition refuses lines in units from 2,048 bytes on, which systemd reads.
func TestUnitWithALongLineIsWritten(t *testing.T) {
	t.Parallel()
	long := "[Service]\nExecStart=/bin/a \\\n  --labels=" + strings.Repeat("x", 5000) + "\n"
	config := render(t, &node.Node{Units: []node.Unit{
		{Name: "a.service", Content: long, Enabled: true, DropIns: []node.DropIn{{Name: "x.conf", Content: "[Service]\n"}, {Name: "y.conf", Content: long}}},
	}})
	for _, path := range []string{"/etc/systemd/system/a.service", "/etc/systemd/system/a.service.d/y.conf"} {
		f := fileAt(t, config, path)
		if got := contentOf(t, f.Contents); got != long || *f.Mode != 0o644 {
			t.Errorf("%s has %d bytes and mode %o", path, len(got), *f.Mode)
		}
	}
	units := []types.Unit{
		{Name: "a.service", Enabled: new(true), Dropins: []types.Dropin{{Name: "x.conf", Contents: new("[Service]\n")}}},
		{Name: node.BootstrapUnit, Contents: new(bootstrapUnit), Enabled: new(true)},
	}
	if diff := cmp.Diff(units, config.Systemd.Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

func TestNodeWithoutHostnameKeepsThatOfTheInfrastructure(t *testing.T) {
	t.Parallel()
	for _, f := range render(t, &node.Node{}).Storage.Files {
		if f.Path == "/etc/hostname" {
			t.Error("the host name is replaced")
		}
	}
}

func TestDisksAreNeverWiped(t *testing.T) {
	t.Parallel()
	config := render(t, &node.Node{Disks: []node.Disk{
		{Device: "/dev/vdb", Filesystem: "xfs", Label: "data", MountPath: "/data", MountOptions: []string{"noatime", "nodev"}},
		{Device: "/dev/vdc", Filesystem: "ext4", Label: "logs", MountPath: "/logs", Partitioned: true},
	}})
	disks := []types.Disk{{Device: "/dev/vdc", WipeTable: new(false), Partitions: []types.Partition{{Number: 1, Label: new("logs")}}}}
	if diff := cmp.Diff(disks, config.Storage.Disks); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	filesystems := []types.Filesystem{
		{Device: "/dev/vdb", Format: new("xfs"), Label: new("data"), Path: new("/data"), WipeFilesystem: new(false), MountOptions: []types.MountOption{"noatime", "nodev"}},
		{Device: "/dev/disk/by-partlabel/logs", Format: new("ext4"), Label: new("logs"), Path: new("/logs"), WipeFilesystem: new(false)},
	}
	if diff := cmp.Diff(filesystems, config.Storage.Filesystems); diff != "" {
		t.Errorf("file systems (-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		node *node.Node
		want string
	}{
		"a template":           {&node.Node{Files: []node.File{{Path: "/a", Jinja: true}}}, "it cannot fill in the expressions of /a"},
		"a template of a unit": {&node.Node{Units: []node.Unit{{Name: "a.service", Jinja: true}}}, "it cannot fill in the expressions of a.service"},
		"a relative path":      {&node.Node{Files: []node.File{{Path: "a"}}}, "path not absolute"},
		"a unit of no kind":    {&node.Node{Units: []node.Unit{{Name: "a"}}}, "invalid systemd unit extension"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := Render(test.node)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %d bytes and %v", len(out), err)
			}
		})
	}
}
