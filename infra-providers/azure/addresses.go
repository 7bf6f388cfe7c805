// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
)

// readAddresses returns the addresses of a virtual machine.
func (d *Driver) readAddresses(ctx context.Context, vm *armcompute.VirtualMachine) ([]clusterv1.MachineAddress, error) {
	var private, public []string
	for _, reference := range interfacesOf(vm) {
		answer, err := d.nics.Get(ctx, d.place.ResourceGroup, request.Last(ptr.Deref(reference.ID, "")), nil)
		if isNotFound(err) {
			continue // of another resource group, or deleted with the virtual machine
		}
		if err != nil {
			return nil, toError(err)
		}
		addresses, ids := addressesOf(&answer.Interface)
		private = append(private, addresses...)
		for _, id := range ids {
			found, err := d.addresses.Get(ctx, d.place.ResourceGroup, request.Last(id), nil)
			if isNotFound(err) {
				continue
			}
			if err != nil {
				return nil, toError(err)
			}
			public = append(public, publicAddressOf(&found.PublicIPAddress)...)
		}
	}
	return toAddresses(ptr.Deref(vm.Name, ""), private, public), nil
}

// listAddresses returns the addresses of virtual machines by their names.
func (d *Driver) listAddresses(ctx context.Context, vms []*armcompute.VirtualMachine) (map[string][]clusterv1.MachineAddress, error) {
	nics, needPublic := map[string]*armnetwork.Interface{}, false
	for nic, err := range d.listInterfaces(ctx) {
		if err != nil {
			return nil, err
		}
		nics[strings.ToLower(ptr.Deref(nic.ID, ""))] = nic
		_, ids := addressesOf(nic)
		needPublic = needPublic || len(ids) > 0 && tag.Decode(nic.Tags).UID != ""
	}
	public := map[string][]string{}
	if needPublic {
		for address, err := range d.listPublicAddresses(ctx) {
			if err != nil {
				return nil, err
			}
			public[strings.ToLower(ptr.Deref(address.ID, ""))] = publicAddressOf(address)
		}
	}
	all := map[string][]clusterv1.MachineAddress{}
	for _, vm := range vms {
		var inside, outside []string
		for _, reference := range interfacesOf(vm) {
			nic := nics[strings.ToLower(ptr.Deref(reference.ID, ""))]
			if nic == nil {
				continue
			}
			addresses, ids := addressesOf(nic)
			inside = append(inside, addresses...)
			for _, id := range ids {
				outside = append(outside, public[strings.ToLower(id)]...)
			}
		}
		name := ptr.Deref(vm.Name, "")
		all[name] = toAddresses(name, inside, outside)
	}
	return all, nil
}

// addressesOf returns the private addresses of a network interface, and the IDs of its public ones.
func addressesOf(nic *armnetwork.Interface) (private, publicIDs []string) {
	if nic.Properties == nil {
		return nil, nil
	}
	for _, configuration := range nic.Properties.IPConfigurations {
		if configuration.Properties == nil {
			continue
		}
		if address := ptr.Deref(configuration.Properties.PrivateIPAddress, ""); address != "" {
			private = append(private, address)
		}
		if public := configuration.Properties.PublicIPAddress; public != nil && public.ID != nil {
			publicIDs = append(publicIDs, *public.ID)
		}
	}
	return private, publicIDs
}

func publicAddressOf(address *armnetwork.PublicIPAddress) []string {
	if address.Properties == nil || ptr.Deref(address.Properties.IPAddress, "") == "" {
		return nil
	}
	return []string{*address.Properties.IPAddress}
}

// toAddresses returns those that Azure gave a virtual machine, and its names.
func toAddresses(name string, private, public []string) (all []clusterv1.MachineAddress) {
	for _, address := range private {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address})
	}
	for _, address := range public {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: address})
	}
	return append(all,
		clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: name},
		clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: name})
}
