// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package request turns the spec of a YandexMachine into requests of the API: one for each disk and one for the instance. It
// looks up the image that the spec names and caches the answer for a minute, so that a burst of machines of one template costs
// one look-up.
//
// It owns the requests and nothing after them: idempotency keys, retries and error kinds are the driver's, which calls it.
package request

import (
	"time"
	"unicode/utf8"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
)

// userDataKey is the metadata item of the bootstrap data, which cloud-init reads.
const userDataKey = "user-data"

// ignition is the format of bootstrap data that nothing on an instance reads.
const ignition = "ignition"

// MaxUserData is the maximum size of the value of a metadata item, in bytes.
const MaxUserData = 256 << 10

// Input describes one instance.
type Input struct {
	Spec     infrav1.YandexMachineSpec
	Zone     string
	Identity driver.Identity
	UserData []byte
	// Format is the format of UserData.
	Format string
}

// Instance returns the request for the instance of an input, to which Attach adds the disks. It fails with
// InvalidConfigurationError only.
func Instance(input Input) (*compute.CreateInstanceRequest, error) {
	spec := input.Spec
	metadata, err := metadata(input)
	if err != nil {
		return nil, err
	}
	to := &compute.CreateInstanceRequest{
		FolderId:   spec.FolderID,
		Name:       input.Identity.Name,
		Hostname:   input.Identity.Name,
		Labels:     label.Merge(spec.Labels, input.Identity),
		ZoneId:     input.Zone,
		PlatformId: spec.PlatformID,
		ResourcesSpec: &compute.ResourcesSpec{
			Cores: spec.Cores, Memory: spec.MemoryMiB << 20, CoreFraction: ptr.Deref(spec.CoreFraction, 0), Gpus: ptr.Deref(spec.GPUs, 0),
		},
		Metadata:               metadata,
		FilesystemSpecs:        filesystems(spec.Filesystems),
		LocalDiskSpecs:         localDisks(spec.LocalDisks),
		NetworkInterfaceSpecs:  networkInterfaces(input),
		ServiceAccountId:       spec.ServiceAccountID,
		SchedulingPolicy:       &compute.SchedulingPolicy{Preemptible: ptr.Deref(spec.Preemptible, false)},
		PlacementPolicy:        placement(spec),
		MaintenancePolicy:      compute.MaintenancePolicy(compute.MaintenancePolicy_value[spec.MaintenancePolicy]),
		MetadataOptions:        metadataOptions(spec.MetadataOptions),
		ReservedInstancePoolId: spec.ReservedInstancePoolID,
	}
	if spec.NetworkAcceleration != "" {
		to.NetworkSettings = &compute.NetworkSettings{Type: compute.NetworkSettings_Type(compute.NetworkSettings_Type_value[spec.NetworkAcceleration])}
	}
	if spec.GPUClusterID != "" {
		to.GpuSettings = &compute.GpuSettings{GpuClusterId: spec.GPUClusterID}
	}
	if spec.MaintenanceGracePeriodSeconds != nil {
		to.MaintenanceGracePeriod = durationpb.New(time.Duration(*spec.MaintenanceGracePeriodSeconds) * time.Second)
	}
	if spec.SerialPortSSHAuthorization != "" {
		to.SerialPortSettings = &compute.SerialPortSettings{SshAuthorization: compute.SerialPortSettings_SSHAuthorization(
			compute.SerialPortSettings_SSHAuthorization_value[spec.SerialPortSSHAuthorization])}
	}
	return to, nil
}

// Attach adds disks that exist to a request, the boot disk first. All of them are deleted with the instance.
func Attach(to *compute.CreateInstanceRequest, spec infrav1.YandexMachineSpec, disks []*compute.Disk) {
	for n, disk := range disks {
		attached := &compute.AttachedDiskSpec{
			Mode: compute.AttachedDiskSpec_READ_WRITE, AutoDelete: true, Disk: &compute.AttachedDiskSpec_DiskId{DiskId: disk.Id},
		}
		if n == 0 {
			to.BootDiskSpec = attached
			continue
		}
		attached.DeviceName = spec.Disks[n-1].Name
		to.SecondaryDiskSpecs = append(to.SecondaryDiskSpecs, attached)
	}
}

func filesystems(from []infrav1.YandexFilesystem) (all []*compute.AttachedFilesystemSpec) {
	for _, filesystem := range from {
		mode := compute.AttachedFilesystemSpec_READ_WRITE
		if ptr.Deref(filesystem.ReadOnly, false) {
			mode = compute.AttachedFilesystemSpec_READ_ONLY
		}
		all = append(all, &compute.AttachedFilesystemSpec{Mode: mode, DeviceName: filesystem.DeviceName, FilesystemId: filesystem.FilesystemID})
	}
	return all
}

func localDisks(from []infrav1.YandexLocalDisk) (all []*compute.AttachedLocalDiskSpec) {
	for _, disk := range from {
		to := &compute.AttachedLocalDiskSpec{Size: disk.SizeGiB << 30}
		if disk.KMSKeyID != "" {
			to.Type = &compute.AttachedLocalDiskSpec_PhysicalLocalDisk{PhysicalLocalDisk: &compute.PhysicalLocalDiskSpec{KmsKeyId: disk.KMSKeyID}}
		}
		all = append(all, to)
	}
	return all
}

func networkInterfaces(input Input) (all []*compute.NetworkInterfaceSpec) {
	for _, from := range input.Spec.NetworkInterfaces {
		to := &compute.NetworkInterfaceSpec{PrimaryV4AddressSpec: &compute.PrimaryAddressSpec{}, SecurityGroupIds: from.SecurityGroupIDs}
		for _, subnet := range from.Subnets {
			if subnet.Zone == input.Zone {
				to.SubnetId = subnet.SubnetID
			}
		}
		if ptr.Deref(from.ExternalIP, false) {
			to.PrimaryV4AddressSpec.OneToOneNatSpec = &compute.OneToOneNatSpec{IpVersion: compute.IpVersion_IPV4}
		}
		if ptr.Deref(from.IPv6, false) {
			to.PrimaryV6AddressSpec = &compute.PrimaryAddressSpec{}
		}
		all = append(all, to)
	}
	return all
}

func placement(spec infrav1.YandexMachineSpec) *compute.PlacementPolicy {
	if spec.PlacementGroupID == "" && len(spec.HostAffinityRules) == 0 {
		return nil
	}
	to := &compute.PlacementPolicy{PlacementGroupId: spec.PlacementGroupID, PlacementGroupPartition: ptr.Deref(spec.PlacementGroupPartition, 0)}
	for _, rule := range spec.HostAffinityRules {
		to.HostAffinityRules = append(to.HostAffinityRules, &compute.PlacementPolicy_HostAffinityRule{
			Key: rule.Key, Op: compute.PlacementPolicy_HostAffinityRule_Operator(compute.PlacementPolicy_HostAffinityRule_Operator_value[rule.Operator]), Values: rule.Values,
		})
	}
	return to
}

func metadataOptions(from infrav1.YandexMetadataOptions) *compute.MetadataOptions {
	if from == (infrav1.YandexMetadataOptions{}) {
		return nil
	}
	option := func(value string) compute.MetadataOption {
		return compute.MetadataOption(compute.MetadataOption_value[value])
	}
	return &compute.MetadataOptions{
		GceHttpEndpoint: option(from.GCEHTTPEndpoint), GceHttpToken: option(from.GCEHTTPToken),
		AwsV1HttpEndpoint: option(from.AWSV1HTTPEndpoint), AwsV1HttpToken: option(from.AWSV1HTTPToken),
		AwsV2HttpEndpoint: option(from.AWSV2HTTPEndpoint), AwsV2HttpToken: option(from.AWSV2HTTPToken),
	}
}

// metadata are the user's items and the bootstrap data. Compute Cloud has no encoding for what is no text.
func metadata(input Input) (map[string]string, error) {
	all := map[string]string{}
	for key, value := range input.Spec.Metadata {
		all[key] = string(value)
	}
	switch {
	case len(input.UserData) == 0:
		return all, nil
	case input.Format == ignition:
		return nil, driver.NeverValid("bootstrap data",
			"the host would never join, because Ignition has no platform for Yandex Cloud: use an operating system with cloud-init")
	case len(input.UserData) > MaxUserData:
		return nil, driver.NeverValid("bootstrap data",
			"%d bytes are more than the %d that Compute Cloud accepts: move files to an image or to a download", len(input.UserData), MaxUserData)
	case !utf8.Valid(input.UserData):
		return nil, driver.NeverValid("bootstrap data", "%d bytes are no text, and Compute Cloud accepts only text", len(input.UserData))
	}
	all[userDataKey] = string(input.UserData)
	return all, nil
}
