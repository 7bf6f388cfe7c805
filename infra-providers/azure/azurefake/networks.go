// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	networkfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9/fake"
	"k8s.io/utils/ptr"
)

const (
	interfaces = "Microsoft.Network/networkInterfaces"
	publics    = "Microsoft.Network/publicIPAddresses"
)

func (c *Cloud) newNetworkTransport() transport {
	return networkfake.NewServerFactoryTransport(&networkfake.ServerFactory{
		InterfacesServer: networkfake.InterfacesServer{
			BeginCreateOrUpdate: c.putInterface, Get: c.getInterface, UpdateTags: c.tagInterface, BeginDelete: c.deleteInterface,
		},
		PublicIPAddressesServer: networkfake.PublicIPAddressesServer{
			BeginCreateOrUpdate: c.putAddress, Get: c.getAddress, UpdateTags: c.tagAddress, BeginDelete: c.deleteAddress,
		},
	})
}

// putInterface creates or changes a network interface. Changing that of another owner, or one that is attached, is a violation.
func (c *Cloud) putInterface(_ context.Context, _, name string, sent armnetwork.Interface, _ *armnetwork.InterfacesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armnetwork.InterfacesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
	if err := c.validateInterface(sent); err != nil {
		errResp.SetError(err)
		return resp, errResp
	}
	status := http.StatusCreated
	if known := c.nics[name]; known != nil {
		status = http.StatusOK
		same := subnetOf(known.model) == subnetOf(sent)
		if known.model.Properties.VirtualMachine != nil && !same || fmt.Sprint(flat(known.model.Tags)) != fmt.Sprint(flat(sent.Tags)) {
			c.violate("the network interface %q, which is attached or another's, was changed", name)
		}
		if same { // nothing changes
			resp.SetTerminalResponse(status, armnetwork.InterfacesClientCreateOrUpdateResponse{Interface: known.model}, nil)
			return resp, errResp
		}
	}
	c.lastIP++
	nic := &networkInterface{model: sent, pending: c.options.NetworkReads}
	nic.model.ID, nic.model.Name = ptr.To(id(interfaces, name)), &name
	nic.model.Properties.ProvisioningState = ptr.To(armnetwork.ProvisioningStateUpdating)
	for _, configuration := range nic.model.Properties.IPConfigurations {
		configuration.Properties.PrivateIPAddress = ptr.To(fmt.Sprintf("10.0.%d.%d", c.lastIP/250, 4+c.lastIP%250))
		if public := configuration.Properties.PublicIPAddress; public != nil {
			c.addresses[last(*public.ID)].model.Properties.IPConfiguration = &armnetwork.IPConfiguration{ID: nic.model.ID}
		}
	}
	c.nics[name] = nic
	if c.options.NetworkReads == 0 {
		c.progressInterface(name, nic)
	}
	resp.SetTerminalResponse(status, armnetwork.InterfacesClientCreateOrUpdateResponse{Interface: nic.model}, nil)
	return resp, errResp
}

func subnetOf(nic armnetwork.Interface) string {
	properties := nic.Properties.IPConfigurations[0].Properties
	return fmt.Sprint(*properties.Subnet.ID, properties.PublicIPAddress != nil)
}

// flat returns tags without the time of the request, which is another one each time.
func flat(tags map[string]*string) map[string]string {
	all := map[string]string{}
	for name, value := range tags {
		if name != "drover-requested" {
			all[name] = ptr.Deref(value, "")
		}
	}
	return all
}

func last(id string) string { return id[strings.LastIndex(id, "/")+1:] }

func (c *Cloud) validateInterface(sent armnetwork.Interface) error {
	if err := checkTags(sent.Tags); err != nil {
		return err
	}
	for _, configuration := range sent.Properties.IPConfigurations {
		if ptr.Deref(configuration.Properties.Subnet.ID, "") != SubnetID {
			return refuse(http.StatusBadRequest, "InvalidResourceReference", "Resource %s referenced by resource was not found.", ptr.Deref(configuration.Properties.Subnet.ID, ""))
		}
		public := configuration.Properties.PublicIPAddress
		if public == nil {
			continue
		}
		address := c.addresses[last(ptr.Deref(public.ID, ""))]
		switch {
		case address == nil:
			return refuse(http.StatusBadRequest, "InvalidResourceReference", "the public address was not found")
		case *address.model.Properties.ProvisioningState != armnetwork.ProvisioningStateSucceeded:
			return refuse(http.StatusConflict, "ReferencedResourceNotProvisioned", "the public address is not in Succeeded state")
		}
	}
	return nil
}

// progressInterface lets one step of a network interface happen once it is no longer pending.
func (c *Cloud) progressInterface(name string, nic *networkInterface) {
	if nic.pending > 0 {
		nic.pending--
		return
	}
	switch *nic.model.Properties.ProvisioningState {
	case armnetwork.ProvisioningStateDeleting:
		c.removeInterface(name)
	case armnetwork.ProvisioningStateUpdating:
		nic.model.Properties.ProvisioningState = ptr.To(armnetwork.ProvisioningStateSucceeded)
	}
}

func (c *Cloud) removeInterface(name string) {
	for _, configuration := range c.nics[name].model.Properties.IPConfigurations {
		if public := configuration.Properties.PublicIPAddress; public != nil {
			if address := c.addresses[last(ptr.Deref(public.ID, ""))]; address != nil {
				address.model.Properties.IPConfiguration = nil
			}
		}
	}
	delete(c.nics, name)
}

func (c *Cloud) getInterface(_ context.Context, _, name string, _ *armnetwork.InterfacesClientGetOptions) (resp azfake.Responder[armnetwork.InterfacesClientGetResponse], errResp azfake.ErrorResponder) {
	if nic := c.nics[name]; nic != nil {
		c.progressInterface(name, nic)
	}
	nic := c.nics[name]
	if nic == nil {
		errResp.SetError(notFound(interfaces, name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armnetwork.InterfacesClientGetResponse{Interface: nic.model}, nil)
	if nic.ending {
		c.removeInterface(name)
		if address := c.addresses[name]; address != nil {
			address.ending = true
		}
	}
	return resp, errResp
}

func (c *Cloud) tagInterface(_ context.Context, _, name string, sent armnetwork.TagsObject, _ *armnetwork.InterfacesClientUpdateTagsOptions) (resp azfake.Responder[armnetwork.InterfacesClientUpdateTagsResponse], errResp azfake.ErrorResponder) {
	nic := c.nics[name]
	if nic == nil {
		errResp.SetError(notFound(interfaces, name))
		return resp, errResp
	}
	nic.model.Tags = sent.Tags
	resp.SetResponse(http.StatusOK, armnetwork.InterfacesClientUpdateTagsResponse{Interface: nic.model}, nil)
	return resp, errResp
}

func (c *Cloud) deleteInterface(_ context.Context, _, name string, _ *armnetwork.InterfacesClientBeginDeleteOptions) (resp azfake.PollerResponder[armnetwork.InterfacesClientDeleteResponse], errResp azfake.ErrorResponder) {
	nic := c.nics[name]
	if nic == nil {
		resp.SetTerminalResponse(http.StatusNoContent, armnetwork.InterfacesClientDeleteResponse{}, nil)
		return resp, errResp
	}
	if nic.model.Properties.VirtualMachine != nil {
		errResp.SetError(refuse(http.StatusBadRequest, "NicInUse", "Network Interface %s is used by existing VM.", name))
		return resp, errResp
	}
	nic.model.Properties.ProvisioningState, nic.pending = ptr.To(armnetwork.ProvisioningStateDeleting), c.options.NetworkDeleteReads
	if c.options.NetworkDeleteReads == 0 {
		c.removeInterface(name)
	}
	resp.SetTerminalResponse(http.StatusAccepted, armnetwork.InterfacesClientDeleteResponse{}, nil)
	return resp, errResp
}

func (c *Cloud) putAddress(_ context.Context, _, name string, sent armnetwork.PublicIPAddress, _ *armnetwork.PublicIPAddressesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armnetwork.PublicIPAddressesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
	if err := checkTags(sent.Tags); err != nil {
		errResp.SetError(err)
		return resp, errResp
	}
	if known := c.addresses[name]; known != nil && fmt.Sprint(flat(known.model.Tags)) != fmt.Sprint(flat(sent.Tags)) {
		c.violate("the public address %q, which is another's, was changed", name)
	}
	c.lastIP++
	address := &publicAddress{model: sent, pending: c.options.NetworkReads}
	address.model.ID, address.model.Name = ptr.To(id(publics, name)), &name
	address.model.Properties.ProvisioningState = ptr.To(armnetwork.ProvisioningStateUpdating)
	address.model.Properties.IPAddress = ptr.To(fmt.Sprintf("20.0.%d.%d", c.lastIP/250, 1+c.lastIP%250))
	c.addresses[name] = address
	if c.options.NetworkReads == 0 {
		c.progressAddress(name, address)
	}
	resp.SetTerminalResponse(http.StatusCreated, armnetwork.PublicIPAddressesClientCreateOrUpdateResponse{PublicIPAddress: address.model}, nil)
	return resp, errResp
}

// progressAddress lets one step of a public address happen once it is no longer pending.
func (c *Cloud) progressAddress(name string, address *publicAddress) {
	if address.pending > 0 {
		address.pending--
		return
	}
	switch *address.model.Properties.ProvisioningState {
	case armnetwork.ProvisioningStateDeleting:
		delete(c.addresses, name)
	case armnetwork.ProvisioningStateUpdating:
		address.model.Properties.ProvisioningState = ptr.To(armnetwork.ProvisioningStateSucceeded)
	}
}

func (c *Cloud) getAddress(_ context.Context, _, name string, _ *armnetwork.PublicIPAddressesClientGetOptions) (resp azfake.Responder[armnetwork.PublicIPAddressesClientGetResponse], errResp azfake.ErrorResponder) {
	if address := c.addresses[name]; address != nil {
		c.progressAddress(name, address)
	}
	address := c.addresses[name]
	if address == nil {
		errResp.SetError(notFound(publics, name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armnetwork.PublicIPAddressesClientGetResponse{PublicIPAddress: address.model}, nil)
	if address.ending {
		delete(c.addresses, name)
	}
	return resp, errResp
}

func (c *Cloud) tagAddress(_ context.Context, _, name string, sent armnetwork.TagsObject, _ *armnetwork.PublicIPAddressesClientUpdateTagsOptions) (resp azfake.Responder[armnetwork.PublicIPAddressesClientUpdateTagsResponse], errResp azfake.ErrorResponder) {
	address := c.addresses[name]
	if address == nil {
		errResp.SetError(notFound(publics, name))
		return resp, errResp
	}
	address.model.Tags = sent.Tags
	resp.SetResponse(http.StatusOK, armnetwork.PublicIPAddressesClientUpdateTagsResponse{PublicIPAddress: address.model}, nil)
	return resp, errResp
}

func (c *Cloud) deleteAddress(_ context.Context, _, name string, _ *armnetwork.PublicIPAddressesClientBeginDeleteOptions) (resp azfake.PollerResponder[armnetwork.PublicIPAddressesClientDeleteResponse], errResp azfake.ErrorResponder) {
	address := c.addresses[name]
	if address == nil {
		resp.SetTerminalResponse(http.StatusNoContent, armnetwork.PublicIPAddressesClientDeleteResponse{}, nil)
		return resp, errResp
	}
	if address.model.Properties.IPConfiguration != nil {
		errResp.SetError(refuse(http.StatusBadRequest, "PublicIPAddressCannotBeDeleted", "Public IP address %s can not be deleted since it is still allocated to a resource.", name))
		return resp, errResp
	}
	address.model.Properties.ProvisioningState, address.pending = ptr.To(armnetwork.ProvisioningStateDeleting), c.options.NetworkDeleteReads
	if c.options.NetworkDeleteReads == 0 {
		delete(c.addresses, name)
	}
	resp.SetTerminalResponse(http.StatusAccepted, armnetwork.PublicIPAddressesClientDeleteResponse{}, nil)
	return resp, errResp
}
