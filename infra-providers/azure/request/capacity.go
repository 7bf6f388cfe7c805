// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Capacity returns the capacity of a virtual machine, from what Azure publishes about its size and image. Ephemeral storage is
// known only if the spec has the size of the OS disk: the API does not have that of an image.
func Capacity(spec infrav1.AzureMachineSpec, of *armcompute.ResourceSKU, image Image) (driver.Capacity, error) {
	values := map[string]string{}
	for _, capability := range of.Capabilities {
		values[ptr.Deref(capability.Name, "")] = ptr.Deref(capability.Value, "")
	}
	cpus, cpuErr := strconv.ParseInt(values["vCPUs"], 10, 64)
	if available, err := strconv.ParseInt(values["vCPUsAvailable"], 10, 64); err == nil && available > 0 {
		cpus = available // of a size with fewer CPUs than its host's share
	}
	memory, memoryErr := strconv.ParseFloat(values["MemoryGB"], 64)
	if err := errors.Join(cpuErr, memoryErr); err != nil {
		return driver.Capacity{}, errors.New("Azure lists the size without its CPUs or its memory") //nolint:staticcheck // it is a name
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(memory*1024)<<20, resource.BinarySI),
	}
	if size := spec.OSDisk.SizeGB; size != nil {
		list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(*size)<<30, resource.BinarySI)
	}
	if gpus, err := strconv.ParseInt(values["GPUs"], 10, 64); err == nil && gpus > 0 {
		list[gpuResource(ptr.Deref(of.Name, ""))] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	architecture := Architecture(values["CpuArchitectureType"])
	if architecture == "" {
		architecture = Architecture(image.Architecture)
	}
	return driver.Capacity{Capacity: list, Architecture: architecture, OperatingSystem: "linux"}, nil
}

// Architecture returns the name that Kubernetes has for an architecture.
func Architecture(name string) string {
	switch name {
	case "x64":
		return "amd64"
	case "Arm64":
		return "arm64"
	default:
		return ""
	}
}

// amdPattern are the sizes whose GPUs are AMD's.
var amdPattern = regexp.MustCompile(`(?i)^Standard_(NV\d+as_v4|ND\d+\w*_MI\d+X_v\d+)$`)

func gpuResource(size string) corev1.ResourceName {
	if amdPattern.MatchString(size) {
		return "amd.com/gpu"
	}
	return "nvidia.com/gpu"
}
