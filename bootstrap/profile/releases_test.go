// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/profile"
)

func ubuntu() *bootstrapv1.BootstrapConfigSpec {
	return &bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu}
}

// components are those of a release, each once.
func components(r *profile.Release) string {
	var all []string
	for _, b := range r.Binaries {
		all = append(all, string(b.Component))
	}
	return strings.Join(slices.Compact(all), " ")
}

func plan(t *testing.T, spec *bootstrapv1.BootstrapConfigSpec, releases bootstrapv1.Releases, version string) *profile.Release {
	t.Helper()
	r, err := profile.Plan(spec, &releases, version)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaultReleases(t *testing.T) {
	t.Parallel()
	var got []string
	for _, b := range plan(t, ubuntu(), bootstrapv1.Releases{Architectures: []string{"arm64"}}, "v1.36.3").Binaries {
		got = append(got, b.URL, b.ChecksumURL)
	}
	want := []string{
		"https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.arm64",
		"https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.sha256sum",
		"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz",
		"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz.sha256sum",
		"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz",
		"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz.sha256",
		"https://github.com/kubernetes-sigs/cri-tools/releases/download/v1.35.0/crictl-v1.35.0-linux-arm64.tar.gz",
		"https://github.com/kubernetes-sigs/cri-tools/releases/download/v1.35.0/crictl-v1.35.0-linux-arm64.tar.gz.sha256",
		"https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubelet",
		"https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubelet.sha256",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryKnownMinorVersionIsComplete(t *testing.T) {
	t.Parallel()
	for minor := 33; minor <= 37; minor++ {
		r := plan(t, ubuntu(), bootstrapv1.Releases{}, fmt.Sprintf("v1.%d.0", minor))
		if got := components(r); got != "runc containerd cniPlugins crictl kubelet" || len(r.Binaries) != 10 || r.SandboxImage == "" {
			t.Errorf("1.%d: %s, %d files, %q", minor, got, len(r.Binaries), r.SandboxImage)
		}
	}
}

func TestPlanLeavesOutWhatIsThere(t *testing.T) {
	t.Parallel()
	own := []bootstrapv1.Download{{Architecture: "amd64", URL: "https://own.example/kubelet", SHA256: "x"}}
	for name, test := range map[string]struct {
		spec     *bootstrapv1.BootstrapConfigSpec
		releases bootstrapv1.Releases
		want     string
	}{
		"flatcar has its own runtime":           {&bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Flatcar}, bootstrapv1.Releases{}, "cniPlugins crictl kubelet"},
		"flatcar with another runtime, by wish": {&bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Flatcar}, bootstrapv1.Releases{Sources: []bootstrapv1.ReleaseSource{{Component: "containerd", FromImage: new(false)}}}, "containerd cniPlugins crictl kubelet"},
		"kubeadm where it joins":                {&bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu, Join: bootstrapv1.Join{Method: bootstrapv1.JoinKubeadm}}, bootstrapv1.Releases{}, "runc containerd cniPlugins crictl kubelet kubeadm"},
		"what the config has":                   {&bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu, Binaries: bootstrapv1.Binaries{Kubelet: own}}, bootstrapv1.Releases{}, "runc containerd cniPlugins crictl"},
		"what the image has": {ubuntu(), bootstrapv1.Releases{Sources: []bootstrapv1.ReleaseSource{
			{Component: "crictl", FromImage: new(true)}, {Component: "runc", FromImage: new(true)}, {Component: "containerd", FromImage: new(true)},
		}}, "cniPlugins kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := components(plan(t, test.spec, test.releases, "1.36.3")); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSourcesMirrorsAndVersions(t *testing.T) {
	t.Parallel()
	releases := bootstrapv1.Releases{
		Mirror:        "http://mirror.example:8080/k8s",
		Architectures: []string{"amd64"},
		Sources: []bootstrapv1.ReleaseSource{{
			Component: "kubelet", URL: "https://own.example/{version}/{architecture}/kubelet", ChecksumURL: "https://own.example/{version}/SHA256SUMS",
		}},
		Versions: []bootstrapv1.ReleaseVersions{
			{Kubernetes: "1.35", Runc: "9.9.9"}, {Kubernetes: "1.36", Containerd: "2.4.2", SandboxImage: "mirror.example/pause:1"},
		},
	}
	r := plan(t, ubuntu(), releases, "v1.36.3+vendor.1")
	by := map[bootstrapv1.Component]profile.Binary{}
	for _, b := range r.Binaries {
		by[b.Component] = b
	}
	for component, want := range map[bootstrapv1.Component]profile.Binary{
		"kubelet":    {"kubelet", "1.36.3+vendor.1", "amd64", "https://own.example/1.36.3+vendor.1/amd64/kubelet", "https://own.example/1.36.3+vendor.1/SHA256SUMS"},
		"containerd": {"containerd", "2.4.2", "amd64", "http://mirror.example:8080/k8s/github.com/containerd/containerd/releases/download/v2.4.2/containerd-static-2.4.2-linux-amd64.tar.gz", ""},
		"runc":       {"runc", "1.5.2", "amd64", "http://mirror.example:8080/k8s/github.com/opencontainers/runc/releases/download/v1.5.2/runc.amd64", ""},
	} {
		if diff := cmp.Diff(want, by[component]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", component, diff)
		}
	}
	if r.SandboxImage != "mirror.example/pause:1" {
		t.Errorf("sandbox image %q", r.SandboxImage)
	}
}

// TestPlanNeedsNoVersionWhereTheImageHasEverything: the profile is used for its defaults only.
func TestPlanNeedsNoVersionWhereTheImageHasEverything(t *testing.T) {
	t.Parallel()
	releases := bootstrapv1.Releases{}
	for _, c := range []bootstrapv1.Component{"kubelet", "cniPlugins", "crictl", "containerd", "runc"} {
		releases.Sources = append(releases.Sources, bootstrapv1.ReleaseSource{Component: c, FromImage: new(true)})
	}
	if r := plan(t, ubuntu(), releases, ""); len(r.Binaries) > 0 || r.SandboxImage != "" {
		t.Errorf("the release is %+v", r)
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for version, field := range map[string]string{
		"": "Machine.spec.version", "1.36": "Machine.spec.version", "latest": "Machine.spec.version", "v1.99.0": "spec.releases.versions",
	} {
		_, err := profile.Plan(ubuntu(), &bootstrapv1.Releases{}, version)
		if invalid, is := errors.AsType[*profile.InvalidError](err); !is || invalid.Field != field {
			t.Errorf("%q: got %v, want %s", version, err, field)
		}
	}
	known := bootstrapv1.Releases{Versions: []bootstrapv1.ReleaseVersions{{Kubernetes: "1.99", Containerd: "2.9.0", Runc: "1.9.0", CNIPlugins: "1.9.9", Crictl: "1.99.0"}}}
	if got := components(plan(t, ubuntu(), known, "v1.99.0")); got != "runc containerd cniPlugins crictl kubelet" {
		t.Errorf("with versions for it: %s", got)
	}
}

func TestSetKeepsWhatTheConfigHas(t *testing.T) {
	t.Parallel()
	spec := ubuntu()
	spec.Containerd.SandboxImage = "own.example/pause:1"
	spec.Binaries.Crictl = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://own.example/crictl", SHA256: "own"}}
	fields := plan(t, spec, bootstrapv1.Releases{}, "v1.36.3").Set(spec, func(b profile.Binary) string { return "sum of " + string(b.Component) + " " + b.Architecture })
	if got := spec.Binaries.Crictl; len(got) != 1 || got[0].SHA256 != "own" || spec.Containerd.SandboxImage != "own.example/pause:1" {
		t.Errorf("crictl %v, sandbox image %s", got, spec.Containerd.SandboxImage)
	}
	want := []bootstrapv1.Download{
		{Architecture: "amd64", URL: "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet", SHA256: "sum of kubelet amd64"},
		{Architecture: "arm64", URL: "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubelet", SHA256: "sum of kubelet arm64"},
	}
	if diff := cmp.Diff(want, spec.Binaries.Kubelet); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"spec.binaries.cniPlugins", "spec.binaries.containerd", "spec.binaries.kubelet", "spec.binaries.runc"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	spec = ubuntu()
	plan(t, spec, bootstrapv1.Releases{}, "v1.36.3").Set(spec, func(profile.Binary) string { return "" })
	if spec.Containerd.SandboxImage != "registry.k8s.io/pause:3.10.2" {
		t.Errorf("sandbox image %q", spec.Containerd.SandboxImage)
	}
}

func TestOwnBinariesAreForAnArchitectureOfTheProfile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, architectures []string
		refused            bool
	}{
		"it accepts the only one":                {[]string{"arm64"}, []string{"arm64"}, false},
		"it accepts one of two":                  {[]string{"arm64"}, []string{"amd64", "arm64"}, false},
		"it accepts one more":                    {[]string{"arm64", "amd64"}, []string{"amd64"}, false},
		"it accepts any where none are named":    {[]string{"arm64"}, nil, false},
		"it refuses another than the only one":   {[]string{"arm64"}, []string{"amd64"}, true},
		"it needs none where the profile has it": {nil, []string{"amd64"}, false},
	} {
		spec := ubuntu()
		for _, a := range c.own {
			spec.Binaries.Kubelet = append(spec.Binaries.Kubelet, bootstrapv1.Download{Architecture: a})
		}
		_, err := profile.Plan(spec, &bootstrapv1.Releases{Architectures: c.architectures}, "v1.36.3")
		invalid, is := errors.AsType[*profile.InvalidError](err)
		if is != c.refused || is && (invalid.Field != "spec.binaries.kubelet" || !invalid.OfBootstrapConfig()) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
