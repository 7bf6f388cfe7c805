// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import bootstrapv1 "drover.io/api/bootstrap/v1alpha1"

// defaultVersions are what each minor version of Kubernetes is used with. Sources:
//
//   - CNI plugins, crictl and the sandbox image: build/dependencies.yaml of the last release of the minor version of
//     Kubernetes, which its own end-to-end tests run with (v1.33.13, v1.34.4, v1.35.4, v1.36.3, v1.37.2).
//   - containerd: RELEASES.md of containerd v2.4.2. 2.3 is its long-term release, and is not older than the oldest one that
//     the table there names for each of these versions.
//   - runc: script/setup/runc-version of that containerd, which it is tested with.
var defaultVersions = map[string]bootstrapv1.ReleaseVersions{
	"1.33": {Containerd: "2.3.7", Runc: "1.5.2", CNIPlugins: "1.6.2", Crictl: "1.32.0", SandboxImage: "registry.k8s.io/pause:3.10"},
	"1.34": {Containerd: "2.3.7", Runc: "1.5.2", CNIPlugins: "1.7.1", Crictl: "1.33.0", SandboxImage: "registry.k8s.io/pause:3.10.1"},
	"1.35": {Containerd: "2.3.7", Runc: "1.5.2", CNIPlugins: "1.8.0", Crictl: "1.34.0", SandboxImage: "registry.k8s.io/pause:3.10.1"},
	"1.36": {Containerd: "2.3.7", Runc: "1.5.2", CNIPlugins: "1.9.1", Crictl: "1.35.0", SandboxImage: "registry.k8s.io/pause:3.10.2"},
	"1.37": {Containerd: "2.3.7", Runc: "1.5.2", CNIPlugins: "1.9.1", Crictl: "1.36.0", SandboxImage: "registry.k8s.io/pause:3.10.2"},
}

// defaultSources are where the projects publish their releases, without the scheme, which is https.
var defaultSources = map[bootstrapv1.Component]struct{ url, checksum string }{
	bootstrapv1.ComponentKubelet: {
		"dl.k8s.io/release/v{version}/bin/linux/{architecture}/kubelet",
		"dl.k8s.io/release/v{version}/bin/linux/{architecture}/kubelet.sha256",
	},
	bootstrapv1.ComponentKubeadm: {
		"dl.k8s.io/release/v{version}/bin/linux/{architecture}/kubeadm",
		"dl.k8s.io/release/v{version}/bin/linux/{architecture}/kubeadm.sha256",
	},
	bootstrapv1.ComponentCNIPlugins: {
		"github.com/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{architecture}-v{version}.tgz",
		"github.com/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{architecture}-v{version}.tgz.sha256",
	},
	bootstrapv1.ComponentCrictl: {
		"github.com/kubernetes-sigs/cri-tools/releases/download/v{version}/crictl-v{version}-linux-{architecture}.tar.gz",
		"github.com/kubernetes-sigs/cri-tools/releases/download/v{version}/crictl-v{version}-linux-{architecture}.tar.gz.sha256",
	},
	bootstrapv1.ComponentContainerd: {
		"github.com/containerd/containerd/releases/download/v{version}/containerd-static-{version}-linux-{architecture}.tar.gz",
		"github.com/containerd/containerd/releases/download/v{version}/containerd-static-{version}-linux-{architecture}.tar.gz.sha256sum",
	},
	bootstrapv1.ComponentRunc: {
		"github.com/opencontainers/runc/releases/download/v{version}/runc.{architecture}",
		"github.com/opencontainers/runc/releases/download/v{version}/runc.sha256sum",
	},
}
