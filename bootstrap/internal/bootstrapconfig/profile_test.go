// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// mirror serves checksum files: for each URL the checksum that sum returns, or 404.
type mirror struct {
	url, authority string

	mu       sync.Mutex
	sum      func(path string) string
	requests map[string]int
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{requests: map[string]int{}, sum: func(string) string { return strings.Repeat("ab", 32) }}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.requests[r.URL.Path]++
		sum := m.sum(r.URL.Path)
		switch {
		case sum == "":
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "runc.sha256sum"):
			fmt.Fprintf(w, "%s  runc.amd64\n%s  runc.arm64\n", sum, sum)
		default:
			fmt.Fprint(w, sum)
		}
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	m.authority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return m
}

func (m *mirror) set(sum func(path string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum = sum
}

func (m *mirror) count(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[path]
}

// profile makes a NodeProfile whose binaries come from the mirror.
func (f *fixture) profile(m *mirror, change func(*bootstrapv1.NodeProfile)) *bootstrapv1.NodeProfile {
	f.t.Helper()
	p := &bootstrapv1.NodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet", Namespace: f.namespace},
		Spec: bootstrapv1.NodeProfileSpec{
			Releases: bootstrapv1.Releases{Mirror: m.url + "/m"},
			Defaults: bootstrapv1.NodeDefaults{TrustedCAs: m.authority, NTP: bootstrapv1.NTP{Servers: []string{"time.example.test"}}},
		},
	}
	if change != nil {
		change(p)
	}
	f.create(p)
	return p
}

// hostFiles are the contents of the files in the bootstrap data of a host, with the data itself.
func (f *fixture) hostFiles(config *bootstrapv1.BootstrapConfig) string {
	f.t.Helper()
	value := f.dataSecret(config).Data[valueKey]
	var data struct {
		Files []struct{ Content, Encoding string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(value, &data); err != nil || len(data.Files) == 0 {
		f.t.Fatalf("the data has %d files: %v", len(data.Files), err)
	}
	all := string(value)
	for _, file := range data.Files {
		if file.Encoding == "gzip+base64" {
			unpacked, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(file.Content)))
			if err != nil {
				f.t.Fatal(err)
			}
			content, err := io.ReadAll(unpacked)
			if err != nil {
				f.t.Fatal(err)
			}
			all += string(content)
		}
	}
	return all
}

// ofProfile refers to the NodeProfile of the fixture.
func ofProfile(config *bootstrapv1.BootstrapConfig) { config.Spec.ProfileRef.Name = "fleet" }

func TestTheVersionOfAMachineIsEnough(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	p := f.profile(m, nil)
	config := f.config(f.machine("m1"), ofProfile)
	f.eventuallyReady(config)
	data := f.hostFiles(config)
	for _, want := range []string{
		m.url + "/m/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet", m.url + "/m/github.com/opencontainers/runc/releases/download/v1.5.2/runc.arm64",
		strings.Repeat("ab", 32), "registry.k8s.io/pause:3.10.2", "time.example.test",
	} {
		if !strings.Contains(data, want) {
			t.Errorf("the data does not have %s", want)
		}
	}
	if err := f.get(p); err != nil || len(p.Status.Releases) != 10 {
		t.Errorf("the profile has %d checksums, %v", len(p.Status.Releases), err)
	}
	got := config.Status.Profile
	if got.Name != "fleet" || got.Generation != p.Generation || !strings.Contains(strings.Join(got.Fields, " "), "spec.binaries.kubelet spec.binaries.runc spec.containerd.sandboxImage spec.ntp spec.trustedCAs") {
		t.Errorf("status.profile = %+v", got)
	}

	second := f.config(f.machine("m2"), ofProfile)
	f.eventuallyReady(second)
	if n := m.count("/m/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet.sha256"); n != 1 {
		t.Errorf("the checksum file of the kubelet was read %d times", n)
	}
}

func TestAChecksumStaysAsItWasReadFirst(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, nil)
	f.eventuallyReady(f.config(f.machine("m1"), ofProfile))
	m.set(func(string) string { return strings.Repeat("cd", 32) })
	config := f.config(f.machine("m2"), ofProfile)
	f.eventuallyReady(config)
	if data := f.hostFiles(config); strings.Contains(data, "cdcdcd") || !strings.Contains(data, "ababab") {
		t.Error("the data has the checksum of the release that replaced the first")
	}
}

func TestDigestsOfTheProfileAreUsedAsTheyAre(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	m.set(func(path string) string {
		if strings.Contains(path, "kubelet") {
			return "" // nothing may ask for it
		}
		return strings.Repeat("ab", 32)
	})
	f.profile(m, func(p *bootstrapv1.NodeProfile) {
		p.Spec.Releases.Architectures = []string{"amd64"}
		p.Spec.Releases.Digests = []bootstrapv1.ReleaseDigest{{Component: "kubelet", Version: "1.36.3", Architecture: "amd64", SHA256: strings.Repeat("0f", 32)}}
	})
	config := f.config(f.machine("m1"), ofProfile)
	f.eventuallyReady(config)
	if data := f.hostFiles(config); !strings.Contains(data, strings.Repeat("0f", 32)) || strings.Contains(data, "linux/arm64") {
		t.Error("the data does not have the digest of the profile, or another architecture")
	}
}

func TestAReleaseThatCannotBeReadIsNamed(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	m.set(func(path string) string {
		if strings.Contains(path, "arm64/kubelet") {
			return ""
		}
		return strings.Repeat("ab", 32)
	})
	p := f.profile(m, nil)
	config := f.config(f.machine("m1"), ofProfile)
	message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	for _, want := range []string{`NodeProfile "fleet"`, "kubelet 1.36.3 for arm64", "answers 404", "spec.releases.digests"} {
		if !strings.Contains(message, want) {
			t.Errorf("the condition does not have %q: %s", want, message)
		}
	}
	if err := f.get(p); err != nil || len(p.Status.Releases) != 9 {
		t.Errorf("%d checksums are stored, %v: those that could be read should be", len(p.Status.Releases), err)
	}
	p.Spec.Releases.Architectures = []string{"amd64"} // its hosts have no other
	if err := management.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	f.eventuallyReady(config)
}

func TestAProfileIsAwaited(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	config := f.config(f.machine("m1"), ofProfile)
	message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForProfileReason)
	if !strings.Contains(message, `NodeProfile "fleet"`) {
		t.Errorf("message: %s", message)
	}
	f.profile(m, nil)
	f.eventuallyReady(config)
}

func TestAVersionWithoutReleasesIsRefused(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, nil)
	message := f.eventually(f.config(f.machineOfVersion("m1", "v1.99.0"), ofProfile), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	if !strings.Contains(message, "spec.releases.versions") {
		t.Errorf("message: %s", message)
	}
}

// The binary is that of the BootstrapConfig, so the condition does not name the profile.
func TestABinaryForAnArchitectureThatTheProfileHasNotIsRefused(t *testing.T) {
	f := newFixture(t)
	f.profile(newMirror(t), func(p *bootstrapv1.NodeProfile) { p.Spec.Releases.Architectures = []string{"amd64"} })
	message := f.eventually(f.config(f.machine("m1"), func(b *bootstrapv1.BootstrapConfig) {
		ofProfile(b)
		b.Spec.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "arm64", URL: "https://a.example.test/kubelet", SHA256: strings.Repeat("0", 64)}}
	}), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
	if !strings.HasPrefix(message, "spec.binaries.kubelet: is for arm64, and spec.releases.architectures of the NodeProfile has amd64") {
		t.Errorf("message = %q", message)
	}
}

func TestAMirrorWithoutTLSNeedsDigests(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, func(p *bootstrapv1.NodeProfile) { p.Spec.Releases.Mirror = strings.Replace(m.url, "https", "http", 1) })
	message := f.eventually(f.config(f.machine("m1"), ofProfile), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	if !strings.Contains(message, "spec.releases.digests") || !strings.Contains(message, "without https") {
		t.Errorf("message: %s", message)
	}
}

func TestAProfileOfAnotherNamespaceIsNotUsed(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	other := newNamespace(t)
	other.profile(m, nil)
	f.eventually(f.config(f.machine("m1"), ofProfile), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForProfileReason)
}

func TestTheStatusOfAProfileHasAnEnd(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	p := f.profile(m, nil)
	for i := range bootstrapv1.MaxReleases - 5 {
		p.Status.Releases = append(p.Status.Releases, bootstrapv1.ReleaseDigest{
			Component: "kubelet", Version: fmt.Sprintf("1.30.%d", i), Architecture: "amd64", SHA256: strings.Repeat("0f", 32),
		})
	}
	if err := management.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	message := f.eventually(f.config(f.machine("m1"), ofProfile), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	if !strings.Contains(message, "no place for 10 more checksums") {
		t.Errorf("message: %s", message)
	}
}

func TestProfilesThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	const sum = "https://a.example.test/{version}/kubelet.sha256"
	for name, test := range map[string]struct {
		change func(*bootstrapv1.NodeProfileSpec)
		field  string
	}{
		"a mirror that ends with a slash": {func(s *bootstrapv1.NodeProfileSpec) { s.Releases.Mirror = "https://a.example.test/" }, "spec.releases.mirror"},
		"a URL without a version": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "kubelet", URL: "https://a.example.test/kubelet", ChecksumURL: sum}}
		}, "spec.releases.sources[0].url"},
		"a placeholder that nothing replaces": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "kubelet", URL: "https://a.example.test/{version}/{arch}", ChecksumURL: sum}}
		}, "spec.releases.sources[0].url"},
		"a checksum without TLS": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "kubelet", URL: "https://a.example.test/{version}", ChecksumURL: "http://a.example.test/{version}"}}
		}, "spec.releases.sources[0].checksumURL"},
		"a source without its checksum": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "kubelet", URL: "https://a.example.test/{version}"}}
		}, "spec.releases.sources[0]"},
		"a source and the image": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "kubelet", FromImage: new(true), URL: "https://a.example.test/{version}", ChecksumURL: sum}}
		}, "spec.releases.sources[0]"},
		"an unknown component": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Sources = []bootstrapv1.ReleaseSource{{Component: "docker", FromImage: new(true)}}
		}, "spec.releases.sources[0].component"},
		"a patch version as a minor one": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Versions = []bootstrapv1.ReleaseVersions{{Kubernetes: "1.36.3", Runc: "1.5.2"}}
		}, "spec.releases.versions[0].kubernetes"},
		"a version with a leading v": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Versions = []bootstrapv1.ReleaseVersions{{Kubernetes: "1.36", Runc: "v1.5.2"}}
		}, "spec.releases.versions[0].runc"},
		"a digest that is none": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Releases.Digests = []bootstrapv1.ReleaseDigest{{Component: "kubelet", Version: "1.36.3", Architecture: "amd64", SHA256: "x"}}
		}, "spec.releases.digests[0].sha256"},
		"defaults that a BootstrapConfig may not have": {func(s *bootstrapv1.NodeProfileSpec) {
			s.Defaults.Users = []bootstrapv1.User{{Name: "admin", SSHAuthorizedKeys: []string{"not a key"}}}
		}, "spec.defaults.users[0].sshAuthorizedKeys[0]"},
	} {
		p := &bootstrapv1.NodeProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: f.namespace}}
		test.change(&p.Spec)
		err := management.Client.Create(t.Context(), p, client.DryRunAll)
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: got %v, want a refusal that names %s", name, err, test.field)
		}
	}
	empty := &bootstrapv1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "empty", Namespace: f.namespace}}
	if err := management.Client.Create(t.Context(), empty, client.DryRunAll); err != nil {
		t.Errorf("a profile without settings: %v", err)
	}
}
