// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.drover.io", Version: "v1alpha1"}

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DigitalOceanMachine{}, &DigitalOceanMachineList{},
		&DigitalOceanMachineTemplate{}, &DigitalOceanMachineTemplateList{},
		&HetznerMachine{}, &HetznerMachineList{},
		&HetznerMachineTemplate{}, &HetznerMachineTemplateList{},
		&AlibabaMachine{}, &AlibabaMachineList{},
		&AlibabaMachineTemplate{}, &AlibabaMachineTemplateList{},
		&AWSMachine{}, &AWSMachineList{},
		&AWSMachineTemplate{}, &AWSMachineTemplateList{},
		&OpenStackMachine{}, &OpenStackMachineList{},
		&OpenStackMachineTemplate{}, &OpenStackMachineTemplateList{},
		&SimMachine{}, &SimMachineList{},
		&SimMachineTemplate{}, &SimMachineTemplateList{},
		&VSphereMachine{}, &VSphereMachineList{},
		&VSphereMachineTemplate{}, &VSphereMachineTemplateList{},
		&QEMUMachine{}, &QEMUMachineList{},
		&QEMUMachineTemplate{}, &QEMUMachineTemplateList{},
		&RestartRemediation{}, &RestartRemediationList{},
		&RestartRemediationTemplate{}, &RestartRemediationTemplateList{},
		&GoogleMachine{}, &GoogleMachineList{},
		&GoogleMachineTemplate{}, &GoogleMachineTemplateList{},
		&AzureMachine{}, &AzureMachineList{},
		&AzureMachineTemplate{}, &AzureMachineTemplateList{},
		&KubeVirtMachine{}, &KubeVirtMachineList{},
		&KubeVirtMachineTemplate{}, &KubeVirtMachineTemplateList{},
		&YandexMachine{}, &YandexMachineList{},
		&YandexMachineTemplate{}, &YandexMachineTemplateList{},
		&MetalStackMachine{}, &MetalStackMachineList{},
		&AnexiaMachine{}, &AnexiaMachineList{},
		&MetalStackMachineTemplate{}, &MetalStackMachineTemplateList{},
		&AnexiaMachineTemplate{}, &AnexiaMachineTemplateList{},
		&NutanixMachine{}, &NutanixMachineList{},
		&NutanixMachineTemplate{}, &NutanixMachineTemplateList{},
		&VCDMachine{}, &VCDMachineList{},
		&VCDMachineTemplate{}, &VCDMachineTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
