// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt writes the kinds and the webhooks of KubeVirt, as its operator installs them, into a folder. The module builds KubeVirt's own
// programs, too, for the tests of infra-kubevirt with them. It is a module of its own, because KubeVirt requires other versions
// of Kubernetes' libraries.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"sigs.k8s.io/yaml"
)

func main() {
	stored := flag.Bool("stored", false, "write what infra-providers/kubevirt/kubevirtfake has of them instead")
	flag.Parse()
	writeTo := write
	if *stored {
		writeTo = writeStored
	}
	if err := writeTo(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "kubevirt:", err)
		os.Exit(1)
	}
}

// storedKinds are those that the driver uses.
var storedKinds = kinds[:6]

// header begins each stored file.
const header = `# KubeVirt v1.7.0, https://github.com/kubevirt/kubevirt: the version that is stored, without descriptions.
# SPDX-FileCopyrightText: The KubeVirt Authors
# SPDX-License-Identifier: Apache-2.0
`

func writeStored(folder string) error {
	for _, kind := range storedKinds {
		definition, err := kind()
		if err != nil {
			return err
		}
		versions := definition.Spec.Versions
		definition.Spec.Versions = slices.DeleteFunc(versions, func(v extv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
		for _, version := range definition.Spec.Versions {
			strip(version.Schema.OpenAPIV3Schema)
		}
		content, err := yaml.Marshal(definition)
		if err != nil {
			return err
		}
		name := "kubevirt.io_" + definition.Spec.Names.Plural + ".yaml"
		if err := os.WriteFile(filepath.Join(folder, name), append([]byte(header), content...), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// strip removes the descriptions of a schema.
func strip(schema *extv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		strip(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		strip(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		strip(schema.AdditionalProperties.Schema)
	}
}

// kinds are those that virt-controller reads.
var kinds = []func() (*extv1.CustomResourceDefinition, error){
	components.NewVirtualMachineCrd, components.NewVirtualMachineInstanceCrd, components.NewVirtualMachineInstancetypeCrd,
	components.NewVirtualMachineClusterInstancetypeCrd, components.NewVirtualMachinePreferenceCrd, components.NewVirtualMachineClusterPreferenceCrd,
	components.NewPresetCrd, components.NewReplicaSetCrd,
	components.NewVirtualMachineInstanceMigrationCrd, components.NewKubeVirtCrd, components.NewVirtualMachinePoolCrd,
	components.NewVirtualMachineSnapshotCrd, components.NewVirtualMachineSnapshotContentCrd, components.NewVirtualMachineRestoreCrd,
	components.NewVirtualMachineExportCrd, components.NewMigrationPolicyCrd,
	components.NewVirtualMachineCloneCrd,
}

// write writes the kinds into crds, and the webhooks, those that mutate first.
func write(folder string) error {
	crds := filepath.Join(folder, "crds")
	if err := os.MkdirAll(crds, 0o755); err != nil {
		return err
	}
	for _, kind := range kinds {
		definition, err := kind()
		if err != nil {
			return err
		}
		content, err := yaml.Marshal(definition)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(crds, definition.Name+".yaml"), content, 0o600); err != nil {
			return err
		}
	}
	mutating, err := yaml.Marshal(components.NewVirtAPIMutatingWebhookConfiguration("kubevirt"))
	if err != nil {
		return err
	}
	validating, err := yaml.Marshal(components.NewVirtAPIValidatingWebhookConfiguration("kubevirt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "webhooks.yaml"), slices.Concat(mutating, []byte("---\n"), validating), 0o600)
}
