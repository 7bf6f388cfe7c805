// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/image"
)

// execute runs the program with arguments and returns what it prints.
func execute(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := newCommand()
	command.SetArgs(arguments)
	command.SetOut(&out)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// keys writes a pair of keys and returns their files.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	folder := t.TempDir()
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		t.Fatal(err)
	}
	encodedPublic, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(folder, "key.pem"), filepath.Join(folder, "key.pub")
	writeFile(t, private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	writeFile(t, public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encodedPublic}))
	return private, public
}

func TestASignedReleaseIsVerified(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "v1.2.3")
	writeFile(t, filepath.Join(folder, "VERSION"), []byte("v1.2.3\n"))
	writeFile(t, filepath.Join(folder, "drover.yaml"), []byte("kind: List\n"))
	if err := checksum.Write(folder); err != nil {
		t.Fatal(err)
	}
	private, public := keys(t)
	_, otherPublic := keys(t)
	if _, err := execute(t, "verify", folder, "--key", public); err == nil {
		t.Error("a release without signature is accepted")
	}
	if _, err := execute(t, "sign", folder, "--key", private); err != nil {
		t.Fatal(err)
	}
	if out, err := execute(t, "verify", folder, "--key", public); err != nil || out != "verified signature and checksums of "+folder+"\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := execute(t, "verify", folder, "--key", otherPublic); err == nil {
		t.Error("the signature of another key is accepted")
	}
	if out, err := execute(t, "verify", folder, "--checksums-only"); err != nil || out != "verified checksums only, not who made "+folder+"\n" {
		t.Errorf("without key: got %q, %v", out, err)
	}
	writeFile(t, filepath.Join(folder, "drover.yaml"), []byte("kind: Pod\n"))
	for _, arguments := range [][]string{{"verify", folder, "--key", public}, {"verify", folder, "--checksums-only"}, {"sign", folder, "--key", private}} {
		if _, err := execute(t, arguments...); err == nil || !strings.Contains(err.Error(), "drover.yaml has SHA-256") {
			t.Errorf("%s of a changed file: got %v", arguments[0], err)
		}
	}
	writeFile(t, filepath.Join(folder, "drover.yaml"), []byte("kind: List\n"))
	writeFile(t, filepath.Join(folder, checksum.File), nil)
	if _, err := execute(t, "verify", folder, "--key", public); err == nil || !strings.Contains(err.Error(), checksum.File) {
		t.Errorf("changed checksums: got %v", err)
	}
}

func TestAnotherReleaseIsNotVerified(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	release := func(folder, content string) string {
		t.Helper()
		folder = filepath.Join(t.TempDir(), folder)
		writeFile(t, filepath.Join(folder, "drover.yaml"), []byte("kind: List\n"))
		if content != "" {
			writeFile(t, filepath.Join(folder, "VERSION"), []byte(content))
		}
		if err := checksum.Write(folder); err != nil {
			t.Fatal(err)
		}
		if _, err := execute(t, "sign", folder, "--key", private); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	for title, test := range map[string]struct {
		folder  string
		version []string
		want    string
	}{
		"an old release in the folder of a new one": {release("v0.2.0", "v0.1.0\n"), nil, `"v0.1.0", not "v0.2.0"`},
		"a release without version":                 {release("v0.2.0", ""), nil, "reading the version"},
		"another version than is asked for":         {release("v0.1.0", "v0.1.0\n"), []string{"--version=v0.2.0"}, `not "v0.2.0"`},
		"the version that is asked for":             {release("download", "v0.1.0\n"), []string{"--version=v0.1.0"}, ""},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			for _, how := range [][]string{{"--key", public}, {"--checksums-only"}} {
				_, err := execute(t, append(append([]string{"verify", test.folder}, test.version...), how...)...)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%s: got %v, want %q", how[0], err, test.want)
				}
			}
		})
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	folder := t.TempDir()
	binary := filepath.Join(folder, "binary")
	writeFile(t, binary, []byte("binary"))
	labels := image.Labels{Version: "v1.2.3", Created: time.Unix(1, 0)}
	made, err := image.New(binary, "amd64", labels)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	builds := []image.Build{{Architecture: "amd64", Image: made, SBOM: []byte("{}")}}
	if err := image.WriteArchive(filepath.Join(folder, "images", "drover-a.tar"), "localhost/drover-a:v1.2.3", "v1.2.3", builds, labels); err != nil {
		t.Fatal(err)
	}
	if err := checksum.Write(folder); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL, "http://")
	out, err := execute(t, "push", folder, "--registry", address+"/team")
	if err != nil {
		t.Fatal(err)
	}
	if want := address + "/team/drover-a:v1.2.3@sha256:"; !strings.HasPrefix(out, want) {
		t.Errorf("got %q, want it to begin with %q", out, want)
	}
	writeFile(t, filepath.Join(folder, checksum.File), []byte(strings.Repeat("0", 64)+"  images/drover-a.tar\n"))
	if out, err := execute(t, "push", folder, "--registry", address+"/other"); err == nil || out != "" {
		t.Errorf("archives that differ from the checksums are pushed: %q, %v", out, err)
	}
}

func TestTheFolderOfAReleaseIsNamed(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "release")
	printed, err := execute(t, "all", "--images=false", "--out="+out)
	if err != nil || !strings.HasSuffix(printed, "\nthe release is in "+out+"\n") {
		t.Errorf("got %q, %v", printed, err)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	if err := checksum.Write(empty); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"a version without v":                {[]string{"images", "--version=0.1.0"}, "--version"},
		"a version that is a word":           {[]string{"images", "--version=latest"}, "--version"},
		"a version with a leading zero":      {[]string{"images", "--version=v0.01.0"}, "--version"},
		"a pre-release with a leading zero":  {[]string{"all", "--version=v0.1.0-01"}, "--version"},
		"a version that is no label":         {[]string{"all", "--version=v0.1.0-a-"}, "--version"},
		"a version that is too long":         {[]string{"all", "--version=v0.1.0-" + strings.Repeat("a", 60)}, "--version"},
		"an empty registry":                  {[]string{"all", "--version=v0.1.0", "--registry="}, "--registry"},
		"a registry with a scheme":           {[]string{"all", "--version=v0.1.0", "--registry=https://registry.example.org"}, "--registry"},
		"a registry in upper case":           {[]string{"images", "--version=v0.1.0", "--registry=registry.example.org/Drover"}, "--registry"},
		"a registry that ends with a slash":  {[]string{"all", "--version=v0.1.0", "--registry=registry.example.org/"}, "--registry"},
		"a port that cannot exist":           {[]string{"all", "--version=v0.1.0", "--registry=registry.example.org:99999/drover"}, "must have a port up to 65535"},
		"a push to an empty registry":        {[]string{"push", empty, "--registry="}, "--registry"},
		"a program that does not exist":      {[]string{"images", "--version=v0.1.0", "--only=infra-none"}, `"infra-none"`},
		"a push without registry":            {[]string{"push", t.TempDir()}, "--registry must be a registry and path"},
		"a push without checksums":           {[]string{"push", "/none/v0.1.0", "--registry=localhost:1"}, "make release VERSION=v0.1.0"},
		"a push of nothing":                  {[]string{"push", empty, "--registry=localhost:1"}, "no images: remove it, and make a release with images"},
		"a signature without key":            {[]string{"sign", t.TempDir()}, "--key must name the file of a private key"},
		"a signature with an empty key":      {[]string{"sign", empty, "--key="}, "--key"},
		"a signature of nothing":             {[]string{"sign", "/none/v0.1.0", "--key=none"}, "make release VERSION=v0.1.0"},
		"a verification of nothing":          {[]string{"verify", "/none/v0.1.0", "--key=none"}, "make release VERSION=v0.1.0"},
		"a verification of what is unsigned": {[]string{"verify", empty, "--key=none"}, "make sign VERSION="},
		"a configuration of nothing":         {[]string{"clusterctl-config", "/none/v0.1.0"}, "make release VERSION=v0.1.0"},
		"a verification without argument":    {[]string{"verify"}, "the folder of a release"},
		"a flag that does not exist":         {[]string{"all", "--wrong"}, "release all --help lists the flags"},
		"a new major version":                {[]string{"all", "--version=v1.0.0"}, "release/internal/clusterctl/clusterctl.go"},
		"a verification without key":         {[]string{"verify", t.TempDir()}, "--checksums-only"},
		"a verification with an empty key":   {[]string{"verify", t.TempDir(), "--key="}, "--key"},
		"an empty key for checksums only":    {[]string{"verify", t.TempDir(), "--key=", "--checksums-only"}, "--key"},
		"a key for checksums only":           {[]string{"verify", t.TempDir(), "--key=a", "--checksums-only"}, "[key checksums-only]"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			arguments := test.arguments
			out := filepath.Join(t.TempDir(), "out")
			if arguments[0] == "all" || arguments[0] == "images" {
				arguments = append(arguments, "--out="+out)
			}
			if _, err := execute(t, arguments...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something is written before the arguments are checked")
			}
		})
	}
}
