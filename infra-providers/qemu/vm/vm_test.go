// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden Files")

func TestArguments(t *testing.T) {
	t.Parallel()
	at := Files{
		PID: "/s/qemu.pid", Socket: "/s/qmp.sock", Seed: "/s/seed.iso", UserData: "/s/user-data",
		Image: "/i/image.qcow2", Disks: []string{"/s/disk.qcow2"},
	}
	base := Spec{ID: "vm-1", Architecture: "amd64", Acceleration: "Auto", CPUs: 2, MemoryMiB: 2048, ImageFormat: "qcow2", MAC: "52:54:00:00:00:01"}
	for name, change := range map[string]func(*Spec, *Files){
		"plain": func(*Spec, *Files) {},
		"everything": func(s *Spec, f *Files) {
			s.Acceleration = "TCG"
			s.CommandLine, f.Kernel, f.Initrd, f.Firmware = "root=/dev/vda quiet", "/i/k", "/i/i", "/i/f"
			f.Disks = []string{"/a,b/disk.qcow2", "/s/disk-1.qcow2"}
			local := netip.MustParseAddr("127.0.0.1")
			s.Forwards = []Forward{{"TCP", local, 2222, 22}, {"UDP", local, 53, 5353}}
		},
		"bridge-arm64-ignition": func(s *Spec, _ *Files) {
			s.Architecture, s.Acceleration, s.Bridge, s.Ignition = "arm64", "KVM", "br0", true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, at := base, at
			change(&spec, &at)
			got := strings.ReplaceAll(strings.Join(Arguments(spec, at), " "), " -", "\n-") + "\n"
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteSeed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seed.iso")
	userData := strings.Repeat("#cloud-config ", 10_000)
	spec := Spec{ID: "vm-1", ProviderID: "qemu:///lab/vm-1", Hostname: "worker-1"}
	for range 2 { // the second time with a partial file
		if err := WriteSeed(path, spec, []byte(userData)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".partial", []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close() //nolint:errcheck // read only
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the token in it is readable with mode %o", mode)
	}
	system, err := iso9660.Read(disk, info.Size(), 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(system.Label(), "\x00 "); label != "cidata" {
		t.Errorf("its label is %q", label)
	}
	if got, err := system.ReadFile("user-data"); err != nil || string(got) != userData {
		t.Errorf("user-data has %d bytes, %v", len(got), err)
	}
	raw, err := system.ReadFile("meta-data")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"instance-id": "vm-1", "local-hostname": "worker-1", "local_hostname": "worker-1", "provider_id": "qemu:///lab/vm-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
