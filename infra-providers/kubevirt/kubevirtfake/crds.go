// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubevirtfake plays KubeVirt's controllers for the tests of the driver, in a real API server with KubeVirt's own kinds:
// it gives VirtualMachines what they run as, and their status, and deletes them. Objects, names, conflicts, owners and permissions
// are the API server's own. It is for tests.
package kubevirtfake

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var crds embed.FS

// Definitions are the kinds of KubeVirt v1.7.0 and CDI v1.63.1 in use. Those of CDI are generated from its Go types.
func Definitions() (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := crds.ReadDir("crds")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := crds.ReadFile("crds/" + file.Name())
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		all = append(all, definition)
	}
	return all, nil
}
