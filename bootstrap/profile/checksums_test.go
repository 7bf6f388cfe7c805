// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/profile"
)

func TestGivenChecksumsReplaceThoseThatWereRead(t *testing.T) {
	t.Parallel()
	digest := func(c bootstrapv1.Component, sum string) bootstrapv1.ReleaseDigest {
		return bootstrapv1.ReleaseDigest{Component: c, Version: "1.36.3", Architecture: "amd64", SHA256: sum}
	}
	p := &bootstrapv1.NodeProfile{}
	p.Status.Releases = []bootstrapv1.ReleaseDigest{digest("kubelet", "read"), digest("kubeadm", "read")}
	p.Spec.Releases.Digests = []bootstrapv1.ReleaseDigest{digest("kubelet", "given")}
	known := profile.ChecksumsOf(p)
	kubelet, kubeadm := profile.Binary{Component: "kubelet", Version: "1.36.3", Architecture: "amd64"}, profile.Binary{Component: "kubeadm", Version: "1.36.3", Architecture: "amd64"}
	other := profile.Binary{Component: "kubelet", Version: "1.36.3", Architecture: "arm64"}
	if known.Of(kubelet) != "given" || known.Of(kubeadm) != "read" || known.Of(other) != "" {
		t.Errorf("checksums = %v", known)
	}
	if diff := cmp.Diff([]profile.Binary{other}, known.Missing([]profile.Binary{kubelet, other, kubeadm})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if known.Add(other, "more"); len(known.Missing([]profile.Binary{other})) > 0 {
		t.Error("a checksum that was added is not known")
	}
}

func TestChecksumsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	full := &bootstrapv1.NodeProfile{}
	full.Status.Releases = make([]bootstrapv1.ReleaseDigest, bootstrapv1.MaxReleases-1)
	b := profile.Binary{Component: "kubelet", Version: "1.36.3", Architecture: "amd64", ChecksumURL: "https://user:secret@a.example.test/sum"}
	if err := profile.CheckPlace(full, []profile.Binary{b}); err != nil {
		t.Errorf("the last place: %v", err)
	}
	invalid, is := errors.AsType[*profile.InvalidError](profile.CheckPlace(full, []profile.Binary{b, b}))
	if !is || invalid.Field != "status.releases" {
		t.Errorf("no place: err = %v", invalid)
	}
	if err := profile.CheckTrusted(b); err != nil {
		t.Errorf("a checksum by https: %v", err)
	}
	if err := profile.Unreadable(b, errors.New("gone")); strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "gone") {
		t.Errorf("err = %v", err)
	}
	b.ChecksumURL = ""
	invalid, is = errors.AsType[*profile.InvalidError](profile.CheckTrusted(b))
	if !is || invalid.Field != "spec.releases.digests" {
		t.Errorf("no checksum by https: err = %v", invalid)
	}
}
