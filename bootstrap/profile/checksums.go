// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"net/url"
	"slices"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Checksums are those that are known, of binaries.
type Checksums map[checksumKey]string

// checksumKey is what has one checksum.
type checksumKey struct {
	component             bootstrapv1.Component
	version, architecture string
}

func keyOf(b Binary) checksumKey { return checksumKey{b.Component, b.Version, b.Architecture} }

// ChecksumsOf are those that a profile has: given in its spec, or read before.
func ChecksumsOf(p *bootstrapv1.NodeProfile) Checksums {
	known := Checksums{}
	for _, d := range slices.Concat(p.Status.Releases, p.Spec.Releases.Digests) { // those of the spec replace
		known[checksumKey{d.Component, d.Version, d.Architecture}] = d.SHA256
	}
	return known
}

// Of is the checksum of a binary; empty if it is not known.
func (c Checksums) Of(b Binary) string { return c[keyOf(b)] }

// Add adds the checksum of a binary.
func (c Checksums) Add(b Binary, sum string) { c[keyOf(b)] = sum }

// Missing are the binaries without a known checksum.
func (c Checksums) Missing(binaries []Binary) []Binary {
	return slices.DeleteFunc(slices.Clone(binaries), func(b Binary) bool { return c.Of(b) != "" })
}

// CheckPlace fails if the status of a profile cannot have the checksums of some more binaries.
func CheckPlace(p *bootstrapv1.NodeProfile, more []Binary) error {
	if len(p.Status.Releases)+len(more) <= bootstrapv1.MaxReleases {
		return nil
	}
	return &InvalidError{"status.releases", fmt.Sprintf("has no place for %d more checksums: remove those of old versions with kubectl edit --subresource=status", len(more))}
}

// CheckTrusted fails if the checksum of a binary cannot be read from anywhere that is trusted.
func CheckTrusted(b Binary) error {
	if b.ChecksumURL != "" {
		return nil
	}
	return &InvalidError{"spec.releases.digests", fmt.Sprintf("has no checksum of %s %s for %s, and that of a mirror without https is not trusted: add it", b.Component, b.Version, b.Architecture)}
}

// Unreadable is the error where the checksum of a binary cannot be read for a reason. The password in the URL is left out.
func Unreadable(b Binary, reason error) error {
	return fmt.Errorf("the checksum of %s %s for %s cannot be read from %s: %w: correct spec.releases, or add the checksum to spec.releases.digests",
		b.Component, b.Version, b.Architecture, b.ChecksumSource(), reason)
}

// redacted is a URL without its password.
func redacted(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "its URL"
	}
	return parsed.Redacted()
}

// ChecksumSource is where the checksum of a binary is read from, without a password.
func (b Binary) ChecksumSource() string { return redacted(b.ChecksumURL) }
