// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Download is a binary that the host fetches and verifies before it is put in place.
type Download struct {
	// Name is what it is, for messages.
	Name string

	// Target is the file it becomes, or the folder it is unpacked into.
	Target string

	// Unpack is true for a gzip-compressed tar archive.
	Unpack bool

	// Sources are where it is, one per architecture.
	Sources []Source
}

// Source is one file and its digest.
type Source struct {
	Architecture, URL, SHA256 string
}

// checkArchitectures refuses binaries that no host can have all of: the script ends where one is missing for the host.
func checkArchitectures(in bootstrapv1.Binaries) error {
	var common, described []string
	for _, b := range []struct {
		field   string
		sources []bootstrapv1.Download
	}{
		{"kubelet", in.Kubelet}, {"kubeadm", in.Kubeadm}, {"containerd", in.Containerd}, {"runc", in.Runc}, {"cniPlugins", in.CNIPlugins}, {"crictl", in.Crictl},
	} {
		if len(b.sources) == 0 {
			continue
		}
		var own []string
		for _, s := range b.sources {
			own = append(own, s.Architecture)
		}
		if described == nil {
			common = own
		}
		common = slices.DeleteFunc(slices.Clone(common), func(a string) bool { return !slices.Contains(own, a) })
		described = append(described, fmt.Sprintf("%s for %s", b.field, strings.Join(own, " and ")))
	}
	if len(described) > 0 && len(common) == 0 {
		return invalid("spec.binaries", "there is no architecture for which there are all, so that no host can join: there is %s: add the others, or correct the architecture", strings.Join(described, ", "))
	}
	return nil
}

func downloads(in bootstrapv1.Binaries) []Download {
	var out []Download
	for _, d := range []Download{
		download(in.Runc, Download{Name: "runc", Target: "/opt/bin/runc"}),
		download(in.Containerd, Download{Name: "containerd", Target: "/opt", Unpack: true}),
		download(in.CNIPlugins, Download{Name: "cni-plugins", Target: "/opt/cni/bin", Unpack: true}),
		download(in.Crictl, Download{Name: "crictl", Target: "/opt/bin", Unpack: true}),
		download(in.Kubelet, Download{Name: "kubelet", Target: kubeletDownloaded}),
		download(in.Kubeadm, Download{Name: "kubeadm", Target: kubeadmDownloaded}),
	} {
		if len(d.Sources) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// download adds the sources of a download.
func download(sources []bootstrapv1.Download, d Download) Download {
	for _, s := range sources {
		d.Sources = append(d.Sources, Source{s.Architecture, s.URL, s.SHA256})
	}
	return d
}
