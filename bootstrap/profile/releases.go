// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Binary is a file that a host downloads.
type Binary struct {
	Component    bootstrapv1.Component
	Version      string // without a leading v
	Architecture string
	URL          string

	// ChecksumURL is the file with its checksum; empty if none can be trusted, since it is not served by https.
	ChecksumURL string
}

// InvalidError means that a profile has no binaries for a version. It names the field to change.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// OfBootstrapConfig reports whether the field is one of the BootstrapConfig, and not of the profile or the Machine.
func (e *InvalidError) OfBootstrapConfig() bool { return strings.HasPrefix(e.Field, "spec.binaries.") }

// VersionField is the field of an [InvalidError] that is not of a profile.
const VersionField = "Machine.spec.version"

// Release is what a version of Kubernetes needs on a host.
type Release struct {
	Binaries []Binary

	// SandboxImage is the image of the pause container.
	SandboxImage string
}

// Plan returns the release of a version of Kubernetes for the hosts of a spec. It has no binary of a component that the
// spec itself has, or that the image of the machine has. The error is an [InvalidError].
func Plan(spec *bootstrapv1.BootstrapConfigSpec, releases *bootstrapv1.Releases, kubernetes string) (*Release, error) {
	of, unknown := version.ParseSemantic(kubernetes)
	if unknown != nil {
		of = version.MajorMinor(0, 0) // none is needed where the image has everything
	}
	versions := versionsOf(releases, fmt.Sprintf("%d.%d", of.Major(), of.Minor()))
	plan := &Release{SandboxImage: versions.SandboxImage}
	var lacking []string
	for _, each := range []struct {
		component bootstrapv1.Component
		version   string
		own       []bootstrapv1.Download
		unused    bool
	}{
		{bootstrapv1.ComponentRunc, versions.Runc, spec.Binaries.Runc, false},
		{bootstrapv1.ComponentContainerd, versions.Containerd, spec.Binaries.Containerd, false},
		{bootstrapv1.ComponentCNIPlugins, versions.CNIPlugins, spec.Binaries.CNIPlugins, false},
		{bootstrapv1.ComponentCrictl, versions.Crictl, spec.Binaries.Crictl, false},
		{bootstrapv1.ComponentKubelet, of.String(), spec.Binaries.Kubelet, false},
		{bootstrapv1.ComponentKubeadm, of.String(), spec.Binaries.Kubeadm, spec.Join.Method != bootstrapv1.JoinKubeadm},
	} {
		if err := checkOwn(releases, each.component, each.own); err != nil {
			return nil, err
		}
		source := sourceOf(releases, each.component)
		if each.unused || len(each.own) > 0 || fromImage(source, spec.OperatingSystem) {
			continue
		}
		if unknown != nil {
			return nil, &InvalidError{VersionField, "must be a version of Kubernetes such as v1.36.3, for which the NodeProfile has binaries"}
		}
		if len(each.version) > bootstrapv1.MaxReleaseVersion {
			return nil, &InvalidError{VersionField, fmt.Sprintf("has more than the %d characters that a NodeProfile can have a checksum for", bootstrapv1.MaxReleaseVersion)}
		}
		if each.version == "" {
			lacking = append(lacking, string(each.component))
			continue
		}
		plan.Binaries = append(plan.Binaries, binaries(releases, source, each.version)...)
	}
	if len(lacking) > 0 {
		return nil, &InvalidError{"spec.releases.versions", fmt.Sprintf(
			"has no version of %s for Kubernetes %d.%d, which is not among the known ones: add it", strings.Join(lacking, ", "), of.Major(), of.Minor())}
	}
	return plan, nil
}

// checkOwn refuses binaries of the spec itself that are for none of the architectures that the profile names.
func checkOwn(releases *bootstrapv1.Releases, component bootstrapv1.Component, own []bootstrapv1.Download) error {
	var has []string
	for _, d := range own {
		if slices.Contains(releases.Architectures, d.Architecture) {
			return nil
		}
		has = append(has, d.Architecture)
	}
	if len(own) == 0 || len(releases.Architectures) == 0 {
		return nil
	}
	return &InvalidError{"spec.binaries." + string(component), fmt.Sprintf(
		"is for %s, and spec.releases.architectures of the NodeProfile has %s: add a file for that, or correct the architectures",
		strings.Join(has, " and "), strings.Join(releases.Architectures, " and "))}
}

// versionsOf are the default versions for a minor version of Kubernetes, where the profile has no others.
func versionsOf(releases *bootstrapv1.Releases, kubernetes string) bootstrapv1.ReleaseVersions {
	versions := defaultVersions[kubernetes]
	for _, own := range releases.Versions {
		if own.Kubernetes == kubernetes {
			versions.Containerd = cmp.Or(own.Containerd, versions.Containerd)
			versions.Runc = cmp.Or(own.Runc, versions.Runc)
			versions.CNIPlugins = cmp.Or(own.CNIPlugins, versions.CNIPlugins)
			versions.Crictl = cmp.Or(own.Crictl, versions.Crictl)
			versions.SandboxImage = cmp.Or(own.SandboxImage, versions.SandboxImage)
		}
	}
	return versions
}

func sourceOf(releases *bootstrapv1.Releases, component bootstrapv1.Component) bootstrapv1.ReleaseSource {
	for _, own := range releases.Sources {
		if own.Component == component {
			return own
		}
	}
	return bootstrapv1.ReleaseSource{Component: component}
}

// fromImage reports whether the image has a component. Flatcar's /usr has a containerd and a runc that belong together.
func fromImage(source bootstrapv1.ReleaseSource, os bootstrapv1.OperatingSystem) bool {
	runtime := source.Component == bootstrapv1.ComponentContainerd || source.Component == bootstrapv1.ComponentRunc
	return ptr.Deref(source.FromImage, runtime && os == bootstrapv1.Flatcar && source.URL == "")
}

// binaries are the files of a component for all architectures.
func binaries(releases *bootstrapv1.Releases, source bootstrapv1.ReleaseSource, version string) []Binary {
	url, checksum := source.URL, source.ChecksumURL
	if url == "" {
		base := "https://"
		if releases.Mirror != "" {
			base = releases.Mirror + "/"
		}
		published := defaultSources[source.Component]
		url, checksum = base+published.url, base+published.checksum
	}
	if !strings.HasPrefix(checksum, "https://") {
		checksum = ""
	}
	architectures := releases.Architectures
	if len(architectures) == 0 {
		architectures = []string{"amd64", "arm64"}
	}
	var all []Binary
	for _, architecture := range slices.Sorted(slices.Values(architectures)) {
		fill := strings.NewReplacer("{version}", version, "{architecture}", architecture)
		all = append(all, Binary{source.Component, version, architecture, fill.Replace(url), fill.Replace(checksum)})
	}
	return all
}

// Set puts binaries with their checksums into a spec, where it has none of its own, and returns the fields. The checksums
// are those of digest, which has one for each binary.
func (r *Release) Set(spec *bootstrapv1.BootstrapConfigSpec, digest func(Binary) string) []string {
	downloads := map[bootstrapv1.Component]*[]bootstrapv1.Download{
		bootstrapv1.ComponentRunc: &spec.Binaries.Runc, bootstrapv1.ComponentContainerd: &spec.Binaries.Containerd,
		bootstrapv1.ComponentCNIPlugins: &spec.Binaries.CNIPlugins, bootstrapv1.ComponentCrictl: &spec.Binaries.Crictl,
		bootstrapv1.ComponentKubelet: &spec.Binaries.Kubelet, bootstrapv1.ComponentKubeadm: &spec.Binaries.Kubeadm,
	}
	var fields []string
	for _, b := range r.Binaries {
		to := downloads[b.Component]
		*to = append(*to, bootstrapv1.Download{Architecture: b.Architecture, URL: b.URL, SHA256: digest(b)})
		fields = append(fields, "spec.binaries."+string(b.Component))
	}
	if spec.Containerd.SandboxImage == "" && r.SandboxImage != "" {
		spec.Containerd.SandboxImage = r.SandboxImage
		fields = append(fields, "spec.containerd.sandboxImage")
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}
