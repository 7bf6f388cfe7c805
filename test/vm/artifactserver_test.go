// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"drover.io/test/vm"
)

// TestArtifactServer fetches what a machine would: a binary that has its checksum, and both images under their own paths.
func TestArtifactServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(file, []byte("a kubelet"), 0o600); err != nil {
		t.Fatal(err)
	}
	artifacts, err := vm.StartArtifactServer(map[string]string{"kubelet": file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(artifacts.Stop)
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/kubelet", artifacts.Port)) //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, response.Body); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != artifacts.Checksums["kubelet"] {
		t.Errorf("its checksum is %s, not %s", got, artifacts.Checksums["kubelet"])
	}
	for _, path := range []string{"pause:3.10.1", "e2e/hello:1"} {
		at, err := name.ParseReference(fmt.Sprintf("127.0.0.1:%d/%s", artifacts.Port, path))
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(at)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"/pause"}, config.Config.Entrypoint); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
