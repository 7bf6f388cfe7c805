// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
)

// accelerators are the resource names of the vendors' device plugins.
var accelerators = map[string]corev1.ResourceName{"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}

var errNoType = errors.New("the region does not have this instance type")

// Capacity returns the capacity of an instance, from what EC2 publishes about its type and image.
func (l *Lookup) Capacity(ctx context.Context, spec infrav1.AWSMachineSpec) (driver.Capacity, error) {
	found, err := l.instanceType(ctx, spec.InstanceType)
	if err != nil {
		return driver.Capacity{}, err
	}
	image, err := l.Image(ctx, spec)
	if err != nil {
		return driver.Capacity{}, err
	}
	size := driver.Capacity{Capacity: capacity(found), Architecture: architecture(found, image), OperatingSystem: "linux"}
	if root := rootSize(image, spec); root > 0 {
		size.Capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(root)<<30, resource.BinarySI)
	}
	return size, nil
}

func (l *Lookup) instanceType(ctx context.Context, name string) (types.InstanceTypeInfo, error) {
	query := &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(name)}}
	found, err := lookup.Cached(&l.answers, "instance type", query, func() ([]types.InstanceTypeInfo, error) {
		out, err := l.api.DescribeInstanceTypes(ctx, query)
		if err != nil {
			return nil, err
		}
		return out.InstanceTypes, nil
	})
	if err != nil {
		return types.InstanceTypeInfo{}, err
	}
	if len(found) == 0 {
		return types.InstanceTypeInfo{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: errNoType}
	}
	return found[0], nil
}

func capacity(of types.InstanceTypeInfo) corev1.ResourceList {
	list := corev1.ResourceList{}
	if of.VCpuInfo != nil {
		list[corev1.ResourceCPU] = *resource.NewQuantity(int64(aws.ToInt32(of.VCpuInfo.DefaultVCpus)), resource.DecimalSI)
	}
	if of.MemoryInfo != nil {
		list[corev1.ResourceMemory] = *resource.NewQuantity(aws.ToInt64(of.MemoryInfo.SizeInMiB)<<20, resource.BinarySI)
	}
	if of.GpuInfo == nil {
		return list
	}
	for _, gpu := range of.GpuInfo.Gpus {
		if name, ok := accelerators[aws.ToString(gpu.Manufacturer)]; ok {
			sum := list[name]
			sum.Add(*resource.NewQuantity(int64(aws.ToInt32(gpu.Count)), resource.DecimalSI))
			list[name] = sum
		}
	}
	return list
}

// architecture is the image's where the type runs it, and the type's own otherwise.
func architecture(of types.InstanceTypeInfo, image types.Image) string {
	var offered []string
	if of.ProcessorInfo != nil {
		for _, supported := range of.ProcessorInfo.SupportedArchitectures {
			if known, ok := architectures[string(supported)]; ok {
				offered = append(offered, known)
			}
		}
	}
	known := Architecture(image)
	switch {
	case known != "" && (len(offered) == 0 || slices.Contains(offered, known)):
		return known
	case slices.Contains(offered, "amd64"):
		return "amd64"
	case len(offered) > 0:
		return offered[0]
	default:
		return ""
	}
}

// Architecture returns Kubernetes' name for the architecture of an image, empty when it has none.
func Architecture(of types.Image) string { return architectures[string(of.Architecture)] }

// architectures maps EC2's names to Kubernetes' names. There is none for 32 bits and for Macs.
var architectures = map[string]string{string(types.ArchitectureTypeX8664): "amd64", string(types.ArchitectureTypeArm64): "arm64"}

// toArchitectureType returns EC2's name for an architecture.
func toArchitectureType(architecture string) types.ArchitectureType {
	if architecture == "amd64" {
		return types.ArchitectureTypeX8664
	}
	return types.ArchitectureType(architecture)
}
