// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package request turns the spec of an AzureMachine into a virtual machine, a network interface and a public address of the
// API. It looks up the image and the size that the spec names and caches the answers, so that a burst of machines of one template
// costs one look-up.
//
// It owns the requests and nothing after them: retries and error kinds are the driver's, which calls it.
package request

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
)

// The priorities.
const (
	Regular = "Regular"
	Spot    = "Spot"
)

// userDataField is the value of bootstrapData for user data.
const userDataField = "UserData"

// defaultUser is the name of the user that the guest creates.
const defaultUser = "drover"

// Input describes one virtual machine.
type Input struct {
	Place    Place
	Spec     infrav1.AzureMachineSpec
	Zone     string
	Identity driver.Identity
	// Requested is the time of the request.
	Requested time.Time
	UserData  []byte
	Format    string
}

func (i Input) tags() map[string]*string {
	tags := map[string]*string{}
	for name, value := range i.Spec.Tags {
		tags[name] = ptr.To(string(value))
	}
	return tag.Merge(tags, i.Identity)
}

// VirtualMachine returns the virtual machine of an input, which boots an image. It fails with InvalidConfigurationError only.
func VirtualMachine(input Input, image Image) (armcompute.VirtualMachine, error) {
	spec := input.Spec
	profile, userData, err := osProfile(input)
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	vm := armcompute.VirtualMachine{
		Location: &spec.Location,
		Tags:     input.tags(),
		Plan:     plan(spec, image),
		Identity: identities(spec),
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile:         &armcompute.HardwareProfile{VMSize: ptr.To(armcompute.VirtualMachineSizeTypes(spec.VMSize))},
			StorageProfile:          storage(input, image),
			OSProfile:               profile,
			UserData:                userData,
			NetworkProfile:          network(input),
			SecurityProfile:         security(spec.Security),
			DiagnosticsProfile:      diagnostics(spec),
			AvailabilitySet:         reference(spec.AvailabilitySetID),
			ProximityPlacementGroup: reference(spec.ProximityPlacementGroupID),
		},
	}
	if input.Zone != "" {
		vm.Zones = []*string{&input.Zone}
	}
	if spec.CapacityReservationGroupID != "" {
		vm.Properties.CapacityReservation = &armcompute.CapacityReservationProfile{CapacityReservationGroup: reference(spec.CapacityReservationGroupID)}
	}
	setPriority(vm.Properties, spec)
	return vm, nil
}

// reference returns a reference to a resource, or nil.
func reference(id string) *armcompute.SubResource {
	if id == "" {
		return nil
	}
	return &armcompute.SubResource{ID: &id}
}

// setPriority sets the price and the eviction policy of a Spot VM. By default an evicted one is deallocated instead of deleted,
// so that its state can be reported.
func setPriority(to *armcompute.VirtualMachineProperties, spec infrav1.AzureMachineSpec) {
	if spec.Priority != Spot {
		return
	}
	price := -1.0 // up to that of a regular virtual machine
	if given, err := strconv.ParseFloat(spec.Spot.MaxPrice, 64); err == nil {
		price = given
	}
	policy := armcompute.VirtualMachineEvictionPolicyTypesDeallocate
	if spec.OSDisk.Ephemeral.Placement != "" {
		policy = armcompute.VirtualMachineEvictionPolicyTypesDelete // such a disk cannot be deallocated
	}
	to.Priority = ptr.To(armcompute.VirtualMachinePriorityTypesSpot)
	to.EvictionPolicy = ptr.To(cmp.Or(armcompute.VirtualMachineEvictionPolicyTypes(spec.Spot.EvictionPolicy), policy))
	to.BillingProfile = &armcompute.BillingProfile{MaxPrice: &price}
}

// plan returns the purchase plan of an image: that of the spec, or that of the marketplace.
func plan(spec infrav1.AzureMachineSpec, image Image) *armcompute.Plan {
	if from := spec.Image.Plan; from != (infrav1.AzureImagePlan{}) {
		return &armcompute.Plan{Publisher: &from.Publisher, Product: &from.Product, Name: &from.Name}
	}
	return image.Plan
}

func identities(spec infrav1.AzureMachineSpec) *armcompute.VirtualMachineIdentity {
	system, user := ptr.Deref(spec.SystemAssignedIdentity, false), map[string]*armcompute.UserAssignedIdentitiesValue{}
	for _, id := range spec.UserAssignedIdentities {
		user[id] = &armcompute.UserAssignedIdentitiesValue{}
	}
	switch {
	case system && len(user) > 0:
		return &armcompute.VirtualMachineIdentity{Type: ptr.To(armcompute.ResourceIdentityTypeSystemAssignedUserAssigned), UserAssignedIdentities: user}
	case system:
		return &armcompute.VirtualMachineIdentity{Type: ptr.To(armcompute.ResourceIdentityTypeSystemAssigned)}
	case len(user) > 0:
		return &armcompute.VirtualMachineIdentity{Type: ptr.To(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: user}
	default:
		return nil
	}
}

// network attaches the machine's network interface, which is deleted with the virtual machine.
func network(input Input) *armcompute.NetworkProfile {
	id := input.Place.ID(NetworkInterfaces, Name(input.Identity.UID))
	return &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{
		ID: &id,
		Properties: &armcompute.NetworkInterfaceReferenceProperties{
			Primary: ptr.To(true), DeleteOption: ptr.To(armcompute.DeleteOptionsDelete),
		},
	}}}
}

func security(from infrav1.AzureSecurity) *armcompute.SecurityProfile {
	if from == (infrav1.AzureSecurity{}) {
		return nil
	}
	to := &armcompute.SecurityProfile{EncryptionAtHost: from.EncryptionAtHost}
	if from.Type == "" {
		return to
	}
	to.SecurityType = ptr.To(armcompute.SecurityTypes(from.Type))
	if from.Type != "Standard" {
		to.UefiSettings = &armcompute.UefiSettings{SecureBootEnabled: from.SecureBoot, VTpmEnabled: from.VTPM}
		if from.VTPM == nil {
			to.UefiSettings.VTpmEnabled = ptr.To(true)
		}
	}
	return to
}

// diagnostics stores the console in storage that Azure manages.
func diagnostics(spec infrav1.AzureMachineSpec) *armcompute.DiagnosticsProfile {
	return &armcompute.DiagnosticsProfile{BootDiagnostics: &armcompute.BootDiagnostics{Enabled: ptr.To(ptr.Deref(spec.BootDiagnostics, true))}}
}

// osProfile returns what the guest is told: its name, its user, and the bootstrap data as custom data or as user data.
func osProfile(input Input) (profile *armcompute.OSProfile, userData *string, err error) {
	keys, err := sshKeys(input.Spec.SSHPublicKeys, cmp.Or(input.Spec.AdminUsername, defaultUser))
	if err != nil {
		return nil, nil, err
	}
	profile = &armcompute.OSProfile{
		ComputerName:  &input.Identity.Name,
		AdminUsername: ptr.To(cmp.Or(input.Spec.AdminUsername, defaultUser)),
		LinuxConfiguration: &armcompute.LinuxConfiguration{
			DisablePasswordAuthentication: ptr.To(true),
			SSH:                           &armcompute.SSHConfiguration{PublicKeys: keys},
		},
	}
	data, err := bootstrapData(input.UserData, input.Format)
	if err != nil || data == nil {
		return profile, nil, err
	}
	if input.Spec.BootstrapData == userDataField {
		return profile, data, nil
	}
	profile.CustomData = data
	return profile, nil, nil
}

// MaxBootstrapData is the maximum size of custom data and of user data, in bytes before they are encoded.
const MaxBootstrapData = 65535

// bootstrapData encodes bootstrap data. Cloud-init reads gzip; Ignition does not.
func bootstrapData(data []byte, format string) (*string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	sent := data
	if len(data) > MaxBootstrapData && format != "ignition" {
		sent = driver.Compress(data)
	}
	if len(sent) > MaxBootstrapData {
		return nil, driver.NeverValid("bootstrap data",
			"%d bytes (%d to send) are more than the %d that Azure accepts: move files to an image or to a download", len(data), len(sent), MaxBootstrapData)
	}
	return ptr.To(base64.StdEncoding.EncodeToString(sent)), nil
}
