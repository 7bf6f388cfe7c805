// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/sim/userdata"
)

// rendered are the bootstrap data that our own renderers write, byte for byte, of every operating system, format and
// option. They are read as files, because the modules do not import each other.
const rendered = "../../../bootstrap/internal/render/testdata"

// TestLoadOfRenderedUserData has the host's kubelet find its API server, token and name in all of them,
// but for kubeadm join, whose files only a kubeadm could write.
func TestLoadOfRenderedUserData(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(rendered); err != nil {
		t.Skipf("this module stands alone here, without the renderers: %v", err)
	}
	seen := map[string]int{}
	for _, ending := range []string{".yaml", ".ign"} {
		files, err := filepath.Glob(filepath.Join(rendered, "*"+ending))
		if err != nil {
			t.Fatal(err)
		}
		seen[ending] = len(files)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				disk, err := userdata.Parse(data, userdata.Metadata{InstanceID: "sim-1", LocalHostname: "worker-1", ProviderID: "sim:///zone-a/sim-1", Zone: "zone-a"})
				if err != nil {
					t.Fatal(err)
				}
				got, err := Load(disk)
				if strings.Contains(file, "kubeadm") {
					if err == nil {
						t.Error("it runs without a kubeadm")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := Config{NodeName: "worker-1", Server: "https://api.example.test:6443", Token: "abcdef.0123456789abcdef"}
				if strings.Contains(file, "-all") {
					want.NodeName, want.Server = "workers-x7k2p", "https://10.0.0.10:443"
				}
				if diff := cmp.Diff(want, Config{NodeName: got.NodeName, Server: got.Server, Token: got.Token}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(got.CA) == 0 || len(got.Taints) == 0 {
					t.Errorf("CA of %d bytes, taints %v", len(got.CA), got.Taints)
				}
			})
		}
	}
	if seen[".yaml"] == 0 || seen[".ign"] == 0 {
		t.Errorf("files by format: %v", seen)
	}
}
