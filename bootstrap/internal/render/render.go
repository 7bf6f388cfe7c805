// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package render chooses the renderer for a Node and enforces the size limit. It is pure. Packages
// cloudinit and ignition write the formats.
package render

import (
	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/cloudinit"
	"drover.io/bootstrap/ignition"
	"drover.io/bootstrap/node"
)

// DefaultMaxSize is how many bytes user data may have by default: what every cloud accepts.
const DefaultMaxSize = 16384

// Data describes the Node and writes it in its format. An error that the operator can fix is a
// *node.InvalidError.
func Data(in node.Input) ([]byte, bootstrapv1.Format, error) {
	n, err := node.Describe(in)
	if err != nil {
		return nil, "", err
	}
	format, err := node.FormatOf(in.Spec)
	if err != nil {
		return nil, "", err
	}
	limit := DefaultMaxSize
	if in.Spec.MaxSizeBytes != nil {
		limit = int(*in.Spec.MaxSizeBytes)
	}
	if err := checkFiles(n, limit); err != nil {
		return nil, "", err
	}
	data, err := write(n, format)
	if err != nil {
		return nil, "", err
	}
	if len(data) > limit {
		return nil, "", tooLarge("the bootstrap data has %d bytes, more than the %d allowed: put less into files and commands, or allow more if the cloud takes it", len(data), limit)
	}
	return data, format, nil
}

func write(n *node.Node, format bootstrapv1.Format) ([]byte, error) {
	if format == bootstrapv1.Ignition {
		return ignition.Render(n)
	}
	return cloudinit.Render(n)
}
