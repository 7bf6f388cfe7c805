// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt writes the kinds of KubeVirt, as its operator installs them, into a folder. The module builds KubeVirt's own
// programs, too, for the tests of infra-kubevirt with them. It is a module of its own, because KubeVirt requires other versions
// of Kubernetes' libraries.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "kubevirt: name a folder")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kubevirt:", err)
		os.Exit(1)
	}
}

// kinds are those that virt-controller reads.
var kinds = []func() (*extv1.CustomResourceDefinition, error){
	components.NewVirtualMachineCrd, components.NewVirtualMachineInstanceCrd, components.NewPresetCrd, components.NewReplicaSetCrd,
	components.NewVirtualMachineInstanceMigrationCrd, components.NewKubeVirtCrd, components.NewVirtualMachinePoolCrd,
	components.NewVirtualMachineSnapshotCrd, components.NewVirtualMachineSnapshotContentCrd, components.NewVirtualMachineRestoreCrd,
	components.NewVirtualMachineExportCrd, components.NewVirtualMachineInstancetypeCrd, components.NewVirtualMachineClusterInstancetypeCrd,
	components.NewVirtualMachinePreferenceCrd, components.NewVirtualMachineClusterPreferenceCrd, components.NewMigrationPolicyCrd,
	components.NewVirtualMachineCloneCrd,
}

func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
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
		if err := os.WriteFile(filepath.Join(folder, definition.Name+".yaml"), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
