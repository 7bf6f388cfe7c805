// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package crds carries the CustomResourceDefinitions of every kind Drover serves:
// upstream's core kinds and our own. The files in bases are generated from the Go types
// by hack/generate.sh; tests, the quickstart and the release manifest all take them from here.
package crds

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Bases holds one YAML file per CustomResourceDefinition, in the folder "bases".
//
//go:embed bases/*.yaml
var Bases embed.FS

// Definitions decodes all of Bases.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := Bases.ReadDir("bases")
	if err != nil {
		return nil, err
	}
	all := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		content, err := Bases.ReadFile("bases/" + file.Name())
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err != nil {
			return nil, fmt.Errorf("reading the CRD %s: %w", file.Name(), err)
		}
		all = append(all, definition)
	}
	return all, nil
}
