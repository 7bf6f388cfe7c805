// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package crds carries the CustomResourceDefinitions of every kind Drover serves:
// upstream's core kinds and our own. The files in bases are generated from the Go types
// by hack/generate.sh; tests, the quickstart and the release manifest all take them from here.
package crds

import "embed"

// Bases holds one YAML file per CustomResourceDefinition, in the folder "bases".
//
//go:embed bases/*.yaml
var Bases embed.FS
