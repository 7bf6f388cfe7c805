// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	ignconfig "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

// Whatever encoding a renderer chooses for a file, the host must get the bytes and the mode that were described.
func TestFilesArriveAsDescribed(t *testing.T) {
	t.Parallel()
	for name, in := range cases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, format, err := render.Data(in)
			if err != nil {
				t.Fatal(err)
			}
			described, err := node.Describe(in)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, f := range described.AllFiles() {
				if staged := f.Staged(); staged != "" && format == bootstrapv1.CloudConfig {
					f.Path, f.Mode = staged, 0o600
				}
				want[f.Path] = fmt.Sprintf("%04o %s", f.Mode, f.Content)
			}
			got := cloudConfigFiles
			if format == bootstrapv1.Ignition {
				got = ignitionFiles
			}
			arrived := got(t, data)
			for path := range arrived {
				if _, ours := want[path]; !ours {
					delete(arrived, path) // what a renderer adds: units, the host's name, sudo rules
				}
			}
			if diff := cmp.Diff(want, arrived); diff != "" {
				t.Errorf("(-described +arrived):\n%s", diff)
			}
		})
	}
}

func cloudConfigFiles(t *testing.T, data []byte) map[string]string {
	t.Helper()
	var config struct {
		WriteFiles []struct{ Path, Permissions, Encoding, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range config.WriteFiles {
		content := []byte(f.Content)
		if strings.HasSuffix(f.Encoding, "base64") {
			content = unbase64(t, f.Content)
		}
		if strings.HasPrefix(f.Encoding, "gzip") {
			content = gunzip(t, content)
		}
		files[f.Path] = f.Permissions + " " + string(content)
	}
	return files
}

func ignitionFiles(t *testing.T, data []byte) map[string]string {
	t.Helper()
	config, report, err := ignconfig.Parse(data)
	if err != nil {
		t.Fatalf("%v: %s", err, report)
	}
	files := map[string]string{}
	for _, f := range config.Storage.Files {
		encoding, body, _ := strings.Cut(*f.Contents.Source, ",")
		var content []byte
		if encoding == "data:;base64" {
			content = unbase64(t, body)
		} else {
			text, err := url.PathUnescape(body)
			if err != nil {
				t.Fatal(err)
			}
			content = []byte(text)
		}
		if f.Contents.Compression != nil {
			content = gunzip(t, content)
		}
		files[f.Path] = fmt.Sprintf("%04o %s", *f.Mode, content)
	}
	return files
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The token opens the cluster, a proxy's URL and a file from a Secret may hold passwords: only root reads them.
func TestSecretsAreNotWorldReadable(t *testing.T) {
	t.Parallel()
	found := map[string]int{"user:pass@": 0, "hunter2": 0, "cHVsbGVyOmh1bnRlcjI=": 0}
	for name, in := range cases() {
		described, err := node.Describe(in)
		if err != nil {
			t.Fatal(err)
		}
		secrets := append(slices.Collect(maps.Keys(found)), in.Token)
		for _, f := range described.AllFiles() {
			for _, secret := range secrets {
				if !strings.Contains(string(f.Content), secret) {
					continue
				}
				found[secret]++
				if f.Mode&0o077 != 0 {
					t.Errorf("%s: %s holds a secret and has mode %04o", name, f.Path, f.Mode)
				}
			}
		}
		for _, u := range described.Units {
			for _, secret := range secrets {
				if strings.Contains(u.Content+fmt.Sprint(u.DropIns), secret) {
					t.Errorf("%s: unit %s, which everybody can read, holds a secret", name, u.Name)
				}
			}
		}
	}
	for secret, files := range found {
		if files == 0 {
			t.Errorf("no file of any case has %q", secret)
		}
	}
}
