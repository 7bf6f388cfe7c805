// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/go-vcloud-director/v3/types/v56"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// maxUserData is how many bytes of user data are sent at most; what Director accepts is not documented.
const maxUserData = 64 << 10

// references are what the names of a spec mean.
type references struct {
	// template is the URL of a virtual machine.
	template          string
	profile           *types.Reference
	sizing, placement *policy
	// policies is the URL under which a policy is referred to by its ID.
	policies string
}

// recomposition returns the request that adds a virtual machine to a vApp and changes nothing else of that.
func recomposition(vApp *types.VApp, req driver.CreateRequest[InstanceConfig], refs references) (*types.ReComposeVAppParams, error) {
	description, err := describe(req.Identity)
	if err != nil {
		return nil, err
	}
	spec, name := req.Config.Spec, vmName(req.Identity.UID)
	item := &types.SourcedCompositionItemParam{
		Source: &types.Reference{HREF: refs.template, Name: name},
		// Kubernetes needs a BIOS UUID for each Node.
		VMGeneralParams: &types.VMGeneralParams{Name: name, Description: description, NeedsCustomization: *spec.GuestCustomization, RegenerateBiosUuid: true},
		InstantiationParams: &types.InstantiationParams{
			GuestCustomizationSection: &types.GuestCustomizationSection{
				Info: "Guest customization", Enabled: spec.GuestCustomization, ComputerName: computerName(req.Identity.Name),
			},
		},
		StorageProfile: refs.profile,
	}
	if len(spec.Networks) > 0 {
		item.InstantiationParams.NetworkConnectionSection = connections(spec.Networks)
	}
	if refs.sizing != nil || refs.placement != nil {
		item.ComputePolicy = &types.ComputePolicy{VmPlacementPolicy: refs.to(refs.placement), VmSizingPolicy: refs.to(refs.sizing)}
	}
	return &types.ReComposeVAppParams{
		Ovf: types.XMLNamespaceOVF, Xsi: types.XMLNamespaceXSI, Xmlns: types.XMLNamespaceVCloud,
		Name: vApp.Name, Description: vApp.Description, SourcedItem: item, AllEULAsAccepted: ptr.Deref(spec.AcceptEULAs, false),
	}, nil
}

// to refers to a policy; nil without one.
func (r references) to(policy *policy) *types.Reference {
	if policy == nil {
		return nil
	}
	return &types.Reference{HREF: r.policies + policy.ID, ID: policy.ID}
}

func connections(networks []infrav1.VCDNetwork) *types.NetworkConnectionSection {
	section := &types.NetworkConnectionSection{Info: "Network connections"}
	for n, network := range networks {
		section.NetworkConnection = append(section.NetworkConnection, &types.NetworkConnection{
			Network: network.Name, NetworkConnectionIndex: n, IsConnected: true,
			IPAddress: network.IPAddress, IPAddressAllocationMode: network.IPAllocationMode, NetworkAdapterType: network.AdapterType,
		})
	}
	return section
}

// computerName returns the name of the machine as one that a computer may have.
func computerName(name string) string {
	name = strings.ReplaceAll(name, ".", "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// mebibytes are those of a GiB.
const mebibytes = 1024

// hardware returns what Director shows of the hardware of a virtual machine.
func hardware(vm *types.Vm) *types.VmSpecSection {
	if vm.VmSpecSection == nil {
		return &types.VmSpecSection{}
	}
	return vm.VmSpecSection
}

// reconfiguration returns the request that gives a virtual machine the hardware of a spec; ok is false if it has it.
func reconfiguration(vm *types.Vm, spec infrav1.VCDMachineSpec) (request *types.Vm, ok bool) {
	have := hardware(vm)
	want := &types.VmSpecSection{Modified: ptr.To(true), Info: "Virtual hardware"}
	if spec.CPUs != 0 && ptr.Deref(have.NumCpus, 0) != int(spec.CPUs) || spec.CoresPerSocket != 0 && ptr.Deref(have.NumCoresPerSocket, 0) != int(spec.CoresPerSocket) {
		want.NumCpus, want.NumCoresPerSocket, ok = have.NumCpus, have.NumCoresPerSocket, true
		if spec.CPUs != 0 {
			// Without the cores, those of the template may not divide the CPUs.
			want.NumCpus, want.NumCoresPerSocket = ptr.To(int(spec.CPUs)), ptr.To(max(int(spec.CoresPerSocket), 1))
		}
	}
	if spec.MemoryMB != 0 && (have.MemoryResourceMb == nil || have.MemoryResourceMb.Configured != spec.MemoryMB) {
		want.MemoryResourceMb, ok = &types.MemoryResourceMb{Configured: spec.MemoryMB}, true
	}
	if disks, changed := resized(have.DiskSection, spec); changed {
		want.DiskSection, ok = disks, true
	}
	return &types.Vm{
		Ovf: types.XMLNamespaceOVF, Xsi: types.XMLNamespaceXSI, Xmlns: types.XMLNamespaceVCloud,
		Name: vm.Name, Description: vm.Description, VmSpecSection: want,
	}, ok
}

// resized returns the disks with the size and the limit of a spec for the first one. A disk that a request leaves out would be
// deleted.
func resized(have *types.DiskSection, spec infrav1.VCDMachineSpec) (*types.DiskSection, bool) {
	if have == nil || len(have.DiskSettings) == 0 {
		return nil, false
	}
	section := &types.DiskSection{DiskSettings: slices.Clone(have.DiskSettings)}
	first, changed := *section.DiskSettings[0], false
	if size := spec.DiskSizeGB * mebibytes; size > first.SizeMb {
		first.SizeMb, changed = size, true
		first.VirtualQuantity, first.VirtualQuantityUnit = nil, ""
	}
	if limit := spec.DiskIOPS; limit != 0 && (first.IopsAllocation == nil || first.IopsAllocation.Limit != limit) {
		first.IopsAllocation, changed = &types.IopsResource{Limit: limit, SharesLevel: "NORMAL"}, true
	}
	section.DiskSettings[0] = &first
	return section, changed
}

// ignoredHardware reports hardware that Director was requested to set, and did not although the task was successful.
func ignoredHardware(change, vm *types.Vm) error {
	field, want, have := "spec.diskIOPS", change.VmSpecSection, hardware(vm)
	switch {
	case want.NumCpus != nil && ptr.Equal(want.NumCpus, have.NumCpus):
		field = "spec.coresPerSocket"
	case want.NumCpus != nil:
		field = "spec.cpus"
	case want.MemoryResourceMb != nil:
		field = "spec.memoryMB"
	case want.DiskSection.DiskSettings[0].SizeMb != have.DiskSection.DiskSettings[0].SizeMb:
		field = "spec.diskSizeGB"
	}
	return driver.InvalidField(field, "%w; the sizing policy or the storage profile may not permit it", errIneffective)
}

// ignoredData reports bootstrap data that Director was requested to set, and did not although the task was successful.
func ignoredData() error {
	return driver.InvalidField("spec.template", "%w; the vApp template may not permit to set OVF properties, which have the bootstrap data: once it is corrected, delete the Machine", errIneffective)
}

// ignition is the format of bootstrap data that cloud-init does not read.
const ignition = "ignition"

// guestProperties returns the OVF properties by which a guest gets its bootstrap data: those of cloud-init's data source OVF, or of
// Ignition.
func guestProperties(req driver.CreateRequest[InstanceConfig]) (map[string]string, error) {
	data, err := driver.FitUserData(req.UserData, req.Format, maxUserData, "this provider")
	if err != nil {
		return nil, err
	}
	encoded := base64.StdEncoding.EncodeToString(data)
	if req.Format == ignition {
		return map[string]string{"guestinfo.ignition.config.data": encoded, "guestinfo.ignition.config.data.encoding": "base64"}, nil
	}
	return map[string]string{"instance-id": string(req.Identity.UID), "hostname": req.Identity.Name, "user-data": encoded}, nil
}

// productSection returns the request that sets the OVF properties.
func productSection(properties map[string]string) *types.ProductSectionList {
	section := &types.ProductSection{Info: "Bootstrap data"}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		section.Property = append(section.Property, &types.Property{
			Key: key, Label: key, Type: "string", UserConfigurable: true, Value: &types.Value{Value: properties[key]},
		})
	}
	return &types.ProductSectionList{Ovf: types.XMLNamespaceOVF, Xmlns: types.XMLNamespaceVCloud, ProductSection: section}
}

// propertiesOf is the reverse of productSection.
func propertiesOf(list *types.ProductSectionList) map[string]string {
	properties := map[string]string{}
	if list.ProductSection == nil {
		return properties
	}
	for _, property := range list.ProductSection.Property {
		properties[property.Key] = property.DefaultValue
		if property.Value != nil {
			properties[property.Key] = property.Value.Value
		}
	}
	return properties
}

// marks returns the metadata of an identity.
func marks(id driver.Identity) map[string]string {
	entries := map[string]string{}
	for tag, value := range id.Tags() {
		entries[key(tag)] = value
	}
	return entries
}

// metadata returns the request that sets entries and keeps all others.
func metadata(entries map[string]string) *types.Metadata {
	request := &types.Metadata{Xmlns: types.XMLNamespaceVCloud, Xsi: types.XMLNamespaceXSI}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		request.MetadataEntry = append(request.MetadataEntry, &types.MetadataEntry{
			Xmlns: types.XMLNamespaceVCloud, Xsi: types.XMLNamespaceXSI, Key: key,
			Domain:     &types.MetadataDomainTag{Visibility: types.MetadataReadWriteVisibility, Domain: "GENERAL"},
			TypedValue: &types.MetadataTypedValue{XsiType: types.MetadataStringValue, Value: entries[key]},
		})
	}
	return request
}
