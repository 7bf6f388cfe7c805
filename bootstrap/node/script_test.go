// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func bash(t *testing.T, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+script)
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestScriptsAreWhatBashUnderstands(t *testing.T) {
	t.Parallel()
	for _, system := range []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Flatcar, bootstrapv1.RHEL, bootstrapv1.Rocky} {
		in := minimal(system)
		in.Version = "v1.36.3"
		in.Spec.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a.example.test/x", SHA256: strings.Repeat("0", 64)}}
		in.Spec.Proxy.HTTP = "http://proxy.example.test"
		in.Spec.PreCommands = []string{"echo 'an open quote is caught here, not in our script"}
		n, err := Describe(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range n.AllFiles() {
			if !strings.HasPrefix(string(f.Content), "#!/bin/bash\n") {
				continue
			}
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, f.Content, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput()
			if broken := strings.HasSuffix(f.Path, "pre-00.sh"); (err != nil) != broken {
				t.Errorf("%s: %s: %v\n%s", system, f.Path, err, out)
			}
		}
	}
}

func TestPutsNothingUnverifiedInPlace(t *testing.T) {
	t.Parallel()
	content := []byte("a program")
	sum := sha256.Sum256(content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	cases := map[string]struct {
		digest string
		placed bool
	}{
		"the right checksum": {hex.EncodeToString(sum[:]), true},
		"a wrong checksum":   {strings.Repeat("0", 64), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := filepath.Join(t.TempDir(), "bin", "kubelet")
			out, err := bash(t, fetchFunction+"\nfetch '"+server.URL+"' "+c.digest+" "+target)
			if (err == nil) != c.placed {
				t.Errorf("err = %v\n%s", err, out)
			}
			got, err := os.ReadFile(target)
			if placed := err == nil && string(got) == string(content); placed != c.placed {
				t.Errorf("placed = %t, want %t", placed, c.placed)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), "*.part")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestFailsWithoutABinaryForTheArchitecture(t *testing.T) {
	t.Parallel()
	n := &Node{Downloads: []Download{{Name: "kubelet", Target: filepath.Join(t.TempDir(), "kubelet"), Sources: []Source{{Architecture: "none", URL: "https://a.example.test", SHA256: "0"}}}}}
	var b strings.Builder
	n.writeDownloads(func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...) + "\n") })
	if out, err := bash(t, b.String()); err == nil || !strings.Contains(out, "no kubelet is configured for") {
		t.Errorf("err = %v\n%s", err, out)
	}
}
