// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestEnumsAreAzures: each value that the schema permits is one of the API.
func TestEnumsAreAzures(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../api/crds/bases/infrastructure.drover.io_azuremachines.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for field, known := range map[string][]string{
		"osDisk.type":                   texts(armcompute.PossibleStorageAccountTypesValues()),
		"osDisk.caching":                texts(armcompute.PossibleCachingTypesValues()),
		"osDisk.securityEncryptionType": texts(armcompute.PossibleSecurityEncryptionTypesValues()),
		"osDisk.ephemeral.placement":    texts(armcompute.PossibleDiffDiskPlacementValues()),
		"priority":                      texts(armcompute.PossibleVirtualMachinePriorityTypesValues()),
		"spot.evictionPolicy":           texts(armcompute.PossibleVirtualMachineEvictionPolicyTypesValues()),
		"security.type":                 texts(armcompute.PossibleSecurityTypesValues()),
		"diskControllerType":            texts(armcompute.PossibleDiskControllerTypesValues()),
	} {
		enum := enumOf(t, spec, field)
		if len(enum) == 0 {
			t.Errorf("%s has no values", field)
		}
		for _, value := range enum {
			if !slices.Contains(known, value) {
				t.Errorf("%s: Azure has no %q: %q", field, value, known)
			}
		}
	}
}

func texts[T ~string](values []T) (all []string) {
	for _, value := range values {
		all = append(all, string(value))
	}
	return all
}

// enumOf returns the values of a field.
func enumOf(t *testing.T, schema apiextensionsv1.JSONSchemaProps, path string) (all []string) {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		schema = schema.Properties[name]
	}
	for _, value := range schema.Enum {
		var text string
		if err := yaml.Unmarshal(value.Raw, &text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}
