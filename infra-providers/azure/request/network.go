// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/tag"
)

// ipConfiguration is the name of the only IP configuration.
const ipConfiguration = "primary"

// NetworkInterface returns the network interface of an input.
func NetworkInterface(input Input) armnetwork.Interface {
	from := input.Spec.NetworkInterface
	properties := &armnetwork.InterfaceIPConfigurationPropertiesFormat{
		Primary:                   ptr.To(true),
		PrivateIPAllocationMethod: ptr.To(armnetwork.IPAllocationMethodDynamic),
		PrivateIPAddressVersion:   ptr.To(armnetwork.IPVersionIPv4),
		Subnet:                    &armnetwork.Subnet{ID: ptr.To(from.SubnetID)},
	}
	if ptr.Deref(from.PublicIP, false) {
		properties.PublicIPAddress = &armnetwork.PublicIPAddress{
			ID:         ptr.To(input.Place.ID(PublicIPAddresses, Name(input.Identity.UID))),
			Properties: &armnetwork.PublicIPAddressPropertiesFormat{DeleteOption: ptr.To(armnetwork.DeleteOptionsDelete)},
		}
	}
	for _, id := range from.ApplicationSecurityGroupIDs {
		properties.ApplicationSecurityGroups = append(properties.ApplicationSecurityGroups, &armnetwork.ApplicationSecurityGroup{ID: &id})
	}
	for _, id := range from.BackendAddressPoolIDs {
		properties.LoadBalancerBackendAddressPools = append(properties.LoadBalancerBackendAddressPools, &armnetwork.BackendAddressPool{ID: &id})
	}
	to := armnetwork.Interface{
		Location: ptr.To(input.Spec.Location),
		Tags:     tag.WithRequested(input.tags(), input.Requested),
		Properties: &armnetwork.InterfacePropertiesFormat{
			EnableAcceleratedNetworking: ptr.To(ptr.Deref(from.AcceleratedNetworking, false)),
			EnableIPForwarding:          ptr.To(ptr.Deref(from.IPForwarding, false)),
			IPConfigurations:            []*armnetwork.InterfaceIPConfiguration{{Name: ptr.To(ipConfiguration), Properties: properties}},
		},
	}
	if from.SecurityGroupID != "" {
		to.Properties.NetworkSecurityGroup = &armnetwork.SecurityGroup{ID: ptr.To(from.SecurityGroupID)}
	}
	return to
}

// Fits reports whether a network interface that an earlier attempt left is what an input needs.
func Fits(nic *armnetwork.Interface, input Input) bool {
	wanted := NetworkInterface(input).Properties
	found := nic.Properties
	if found == nil || len(found.IPConfigurations) != 1 || found.IPConfigurations[0].Properties == nil {
		return false
	}
	has, needs := found.IPConfigurations[0].Properties, wanted.IPConfigurations[0].Properties
	return has.Subnet != nil && strings.EqualFold(ptr.Deref(has.Subnet.ID, ""), *needs.Subnet.ID) &&
		(has.PublicIPAddress == nil) == (needs.PublicIPAddress == nil) &&
		ptr.Deref(found.EnableAcceleratedNetworking, false) == *wanted.EnableAcceleratedNetworking &&
		ptr.Deref(found.EnableIPForwarding, false) == *wanted.EnableIPForwarding
}

// PublicIPAddress returns the public address of an input. It is in no zone, so that it fits a virtual machine in any.
func PublicIPAddress(input Input) armnetwork.PublicIPAddress {
	return armnetwork.PublicIPAddress{
		Location: ptr.To(input.Spec.Location),
		Tags:     tag.WithRequested(input.tags(), input.Requested),
		SKU:      &armnetwork.PublicIPAddressSKU{Name: ptr.To(armnetwork.PublicIPAddressSKUNameStandard)},
		Properties: &armnetwork.PublicIPAddressPropertiesFormat{
			PublicIPAllocationMethod: ptr.To(armnetwork.IPAllocationMethodStatic),
			PublicIPAddressVersion:   ptr.To(armnetwork.IPVersionIPv4),
			DeleteOption:             ptr.To(armnetwork.DeleteOptionsDelete),
		},
	}
}
