// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package request turns the spec of a GoogleMachine into one instance of the API. It looks up the image and the machine type
// that the spec names and caches the answers for a minute, so that a burst of machines of one template costs one look-up.
//
// It owns the request and nothing after it: request IDs, retries and error kinds are the driver's, which calls it.
package request

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	compute "google.golang.org/api/compute/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/diskname"
	"drover.io/infra-providers/internal/label"
)

// The provisioning models.
const (
	Standard = "STANDARD"
	Spot     = "SPOT"
)

// cloudPlatform is the scope with which IAM alone decides.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// Input describes one instance.
type Input struct {
	Spec     infrav1.GoogleMachineSpec
	Zone     string
	Identity driver.Identity
	UserData []byte
	Format   string
}

// Instance returns the instance of an input, which boots an image. It fails with InvalidConfigurationError only.
func Instance(input Input, image *compute.Image) (*compute.Instance, error) {
	spec := input.Spec
	items, err := metadata(input)
	if err != nil {
		return nil, err
	}
	return &compute.Instance{
		Name:                       input.Identity.Name,
		MachineType:                fmt.Sprintf("zones/%s/machineTypes/%s", input.Zone, spec.MachineType),
		Labels:                     label.Merge(spec.Labels, input.Identity),
		Metadata:                   &compute.Metadata{Items: items},
		Disks:                      disks(input, image),
		NetworkInterfaces:          networkInterfaces(input),
		CanIpForward:               ptr.Deref(spec.CanIPForward, false),
		Tags:                       tags(spec.Tags),
		ServiceAccounts:            serviceAccounts(spec.ServiceAccount),
		Scheduling:                 scheduling(spec),
		MinCpuPlatform:             spec.MinCPUPlatform,
		GuestAccelerators:          accelerators(input),
		ShieldedInstanceConfig:     shielded(spec.ShieldedInstance),
		ConfidentialInstanceConfig: confidential(spec.ConfidentialInstanceType),
		AdvancedMachineFeatures:    advancedFeatures(spec.AdvancedMachineFeatures),
		ReservationAffinity:        reservation(spec.ReservationAffinity),
		ResourcePolicies:           regional(input, "resourcePolicies", spec.ResourcePolicies),
	}, nil
}

// disks are the boot disk, the further disks and the local SSDs. All of them are deleted with the instance.
func disks(input Input, image *compute.Image) []*compute.AttachedDisk {
	spec := input.Spec
	boot := disk(input, spec.BootDisk.GoogleDiskSettings)
	boot.Boot = true
	boot.InitializeParams.SourceImage = ImageName(image)
	for _, feature := range spec.BootDisk.GuestOSFeatures {
		boot.GuestOsFeatures = append(boot.GuestOsFeatures, &compute.GuestOsFeature{Type: feature})
	}
	all := []*compute.AttachedDisk{boot}
	for _, further := range spec.Disks {
		attached := disk(input, further.GoogleDiskSettings)
		attached.DeviceName, attached.InitializeParams.DiskName = further.Name, diskname.Further(input.Identity, further.Name)
		if further.Snapshot != "" {
			attached.InitializeParams.SourceSnapshot = "global/snapshots/" + further.Snapshot
		}
		all = append(all, attached)
	}
	for range spec.LocalSSD.Count {
		all = append(all, &compute.AttachedDisk{
			Type:             "SCRATCH",
			AutoDelete:       true,
			Interface:        spec.LocalSSD.Interface,
			InitializeParams: &compute.AttachedDiskInitializeParams{DiskType: "zones/" + input.Zone + "/diskTypes/local-ssd"},
		})
	}
	return all
}

func disk(input Input, from infrav1.GoogleDiskSettings) *compute.AttachedDisk {
	to := &compute.AttachedDisk{
		Type:       "PERSISTENT",
		AutoDelete: true,
		InitializeParams: &compute.AttachedDiskInitializeParams{
			DiskSizeGb:            ptr.Deref(from.SizeGB, 0),
			ProvisionedIops:       ptr.Deref(from.ProvisionedIOPS, 0),
			ProvisionedThroughput: ptr.Deref(from.ProvisionedThroughput, 0),
			Labels:                label.Merge(input.Spec.Labels, input.Identity),
		},
	}
	if from.Type != "" {
		to.InitializeParams.DiskType = fmt.Sprintf("zones/%s/diskTypes/%s", input.Zone, from.Type)
	}
	if from.KMSKeyName != "" {
		to.DiskEncryptionKey = &compute.CustomerEncryptionKey{KmsKeyName: from.KMSKeyName}
	}
	return to
}

// DiskNames are the names of the persistent disks that are created with an instance.
func DiskNames(instance *compute.Instance) (names []string) {
	for _, attached := range instance.Disks {
		switch {
		case attached.Type != "PERSISTENT":
		case attached.InitializeParams.DiskName == "":
			names = append(names, instance.Name) // the default, of the boot disk only
		default:
			names = append(names, attached.InitializeParams.DiskName)
		}
	}
	return names
}

// maxDeviceName is the maximum length of the name of a further disk in a spec.
const maxDeviceName = 30

// IsDiskName reports whether a disk of a machine can have a name: it is that of the boot disk or of a further one. Labels may have
// been copied to other disks.
func IsDiskName(id driver.Identity, name string) bool { return diskname.Fits(id, name, maxDeviceName) }

// DefaultNetwork is the network of an instance whose spec names none.
const DefaultNetwork = "default"

func networkInterfaces(input Input) (all []*compute.NetworkInterface) {
	wanted := input.Spec.NetworkInterfaces
	if len(wanted) == 0 {
		wanted = []infrav1.GoogleNetworkInterface{{Network: DefaultNetwork}}
	}
	for _, from := range wanted {
		project := from.Project
		if project == "" {
			project = input.Spec.Project
		}
		to := &compute.NetworkInterface{StackType: from.StackType, NicType: from.NICType}
		if from.Network != "" {
			to.Network = fmt.Sprintf("projects/%s/global/networks/%s", project, from.Network)
		}
		if from.Subnetwork != "" {
			to.Subnetwork = fmt.Sprintf("projects/%s/regions/%s/subnetworks/%s", project, region(input.Zone), from.Subnetwork)
		}
		if ptr.Deref(from.ExternalIP, false) {
			to.AccessConfigs, to.Ipv6AccessConfigs = accessConfigs(from)
		}
		for _, alias := range from.AliasIPRanges {
			to.AliasIpRanges = append(to.AliasIpRanges, &compute.AliasIpRange{IpCidrRange: alias.IPCIDRRange, SubnetworkRangeName: alias.SubnetworkRangeName})
		}
		all = append(all, to)
	}
	return all
}

func accessConfigs(from infrav1.GoogleNetworkInterface) (v4, v6 []*compute.AccessConfig) {
	if from.StackType != "IPV6_ONLY" {
		v4 = []*compute.AccessConfig{{Type: "ONE_TO_ONE_NAT", Name: "External NAT", NetworkTier: from.NetworkTier}}
	}
	if from.StackType == "IPV4_IPV6" || from.StackType == "IPV6_ONLY" {
		// External IPv6 addresses exist in the premium tier only.
		v6 = []*compute.AccessConfig{{Type: "DIRECT_IPV6", Name: "External IPv6", NetworkTier: "PREMIUM"}}
	}
	return v4, v6
}

// region returns the region of a zone, which is its name without the last part.
func region(zone string) string { return zone[:max(0, strings.LastIndex(zone, "-"))] }

// regional returns the partial URLs of resources in the region of the instance.
func regional(input Input, kind string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, fmt.Sprintf("projects/%s/regions/%s/%s/%s", input.Spec.Project, region(input.Zone), kind, name))
	}
	return all
}

func tags(names []string) *compute.Tags {
	if len(names) == 0 {
		return nil
	}
	return &compute.Tags{Items: names}
}

func serviceAccounts(from infrav1.GoogleServiceAccount) []*compute.ServiceAccount {
	if from.Email == "" {
		return nil
	}
	scopes := from.Scopes
	if len(scopes) == 0 {
		scopes = []string{cloudPlatform}
	}
	return []*compute.ServiceAccount{{Email: from.Email, Scopes: scopes}}
}

// scheduling stops a preempted instance instead of deleting it, so that the cause can be reported.
func scheduling(spec infrav1.GoogleMachineSpec) *compute.Scheduling {
	to := &compute.Scheduling{ProvisioningModel: spec.ProvisioningModel, AutomaticRestart: spec.AutomaticRestart, OnHostMaintenance: spec.OnHostMaintenance}
	if spec.ProvisioningModel == Spot {
		to.AutomaticRestart, to.OnHostMaintenance, to.InstanceTerminationAction = ptr.To(false), "TERMINATE", "STOP"
	}
	if len(spec.GuestAccelerators) > 0 {
		to.OnHostMaintenance = "TERMINATE"
	}
	return to
}

func accelerators(input Input) (all []*compute.AcceleratorConfig) {
	for _, from := range input.Spec.GuestAccelerators {
		all = append(all, &compute.AcceleratorConfig{
			AcceleratorType:  fmt.Sprintf("projects/%s/zones/%s/acceleratorTypes/%s", input.Spec.Project, input.Zone, from.Type),
			AcceleratorCount: int64(from.Count),
		})
	}
	return all
}

// shielded sends what the spec sets, false included.
func shielded(from infrav1.GoogleShieldedInstance) *compute.ShieldedInstanceConfig {
	if from == (infrav1.GoogleShieldedInstance{}) {
		return nil
	}
	to := &compute.ShieldedInstanceConfig{}
	for name, setting := range map[string]struct {
		from *bool
		to   *bool
	}{
		"EnableSecureBoot":          {from.SecureBoot, &to.EnableSecureBoot},
		"EnableVtpm":                {from.VTPM, &to.EnableVtpm},
		"EnableIntegrityMonitoring": {from.IntegrityMonitoring, &to.EnableIntegrityMonitoring},
	} {
		if setting.from != nil {
			*setting.to = *setting.from
			to.ForceSendFields = append(to.ForceSendFields, name)
		}
	}
	slices.Sort(to.ForceSendFields)
	return to
}

func confidential(kind string) *compute.ConfidentialInstanceConfig {
	if kind == "" {
		return nil
	}
	return &compute.ConfidentialInstanceConfig{ConfidentialInstanceType: kind}
}

func advancedFeatures(from infrav1.GoogleAdvancedMachineFeatures) *compute.AdvancedMachineFeatures {
	if from == (infrav1.GoogleAdvancedMachineFeatures{}) {
		return nil
	}
	return &compute.AdvancedMachineFeatures{EnableNestedVirtualization: ptr.Deref(from.NestedVirtualization, false), ThreadsPerCore: ptr.Deref(from.ThreadsPerCore, 0)}
}

func reservation(from infrav1.GoogleReservationAffinity) *compute.ReservationAffinity {
	if from.ConsumeReservationType == "" {
		return nil
	}
	to := &compute.ReservationAffinity{ConsumeReservationType: from.ConsumeReservationType}
	if from.Reservation != "" {
		to.Key, to.Values = "compute.googleapis.com/reservation-name", []string{from.Reservation}
	}
	return to
}

// metadata are the user's items and the bootstrap data.
func metadata(input Input) ([]*compute.MetadataItems, error) {
	all := map[string]string{}
	for key, value := range input.Spec.Metadata {
		all[key] = string(value)
	}
	if err := addUserData(all, input.UserData, input.Format); err != nil {
		return nil, err
	}
	var items []*compute.MetadataItems
	for _, key := range slices.Sorted(maps.Keys(all)) {
		items = append(items, &compute.MetadataItems{Key: key, Value: ptr.To(all[key])})
	}
	return items, nil
}
