// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// SBOMType is the media type of a software bill of materials in the format SPDX JSON.
const SBOMType = "application/spdx+json"

// Build is an image of one architecture, with its software bill of materials in SPDX JSON.
type Build struct {
	Architecture string
	Image        v1.Image
	SBOM         []byte
}

// NewIndex makes one image for several architectures.
func NewIndex(builds []Build, labels Labels) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range builds {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: b.Image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.Architecture}},
		})
	}
	return mutate.Annotations(index, labels.Map()).(v1.ImageIndex)
}

// Referrer makes the artifact that attaches the software bill of materials to the image. A registry lists it among the
// image's referrers. Its type is the media type of its configuration, which registries and clients from before version 1.1
// of the OCI specification support, too.
func (b Build) Referrer() (v1.Image, error) {
	subject, err := partial.Descriptor(b.Image)
	if err != nil {
		return nil, fmt.Errorf("describing the image: %w", err)
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), SBOMType)
	artifact, err = mutate.Append(artifact, mutate.Addendum{Layer: static.NewLayer(b.SBOM, SBOMType)})
	if err != nil {
		return nil, fmt.Errorf("adding the software bill of materials: %w", err)
	}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}
