// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
)

// Create implements driver.Driver. Public address, network interface and virtual machine are requested one after the other; no
// call waits for one. Whether Azure has capacity is known only some time after it accepted the virtual machine, so Create is
// unfinished until that runs.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	found, err := d.read(ctx, req.Identity.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil {
		return d.continueCreation(ctx, req, found)
	}
	nic, err := d.readInterface(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if refusal, ok := d.refusals.Get(machineKey(req.Identity)); ok {
		d.refusals.Delete(machineKey(req.Identity))
		return driver.Instance{}, refusal
	}
	image, err := d.lookup.Image(ctx, req.Config.Spec)
	if err != nil {
		return driver.Instance{}, toCreateError(err, req.Config, "spec.image")
	}
	input := request.Input{
		Place: d.place, Spec: req.Config.Spec, Zone: req.Config.Zone, Identity: req.Identity, Requested: d.clock.Now(),
		UserData: req.UserData, Format: req.Format,
	}
	vm, err := request.VirtualMachine(input, image)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.prepare(ctx, req.Config, input, nic); err != nil {
		return driver.Instance{}, err
	}
	return d.request(ctx, req, vm)
}

// machineKey is what stays the same of an identity. A UID alone is not enough, because the author of a machine may choose it.
func machineKey(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// prepare makes what a virtual machine needs. It is unfinished until all of that can be used.
func (d *Driver) prepare(ctx context.Context, config InstanceConfig, input request.Input, nic *armnetwork.Interface) error {
	if nic == nil {
		return d.requestInterface(ctx, config, input)
	}
	switch state := interfaceState(nic); {
	case nic.Properties != nil && nic.Properties.VirtualMachine != nil, state == deleting:
		return &driver.UnfinishedError{Err: errCleaning}
	case state != succeeded && state != failed:
		return &driver.UnfinishedError{Err: errPreparing}
	case state == failed, !request.Fits(nic, input):
		return d.requestInterface(ctx, config, input)
	}
	// An earlier attempt may have left disks, whose names this one needs.
	left, err := d.ownDisks(ctx, input.Identity)
	if err != nil {
		return err
	}
	if err := d.deleteDetached(ctx, left); err != nil {
		return err
	}
	if len(left) > 0 {
		return &driver.UnfinishedError{Err: errCleaning}
	}
	return nil
}

func interfaceState(nic *armnetwork.Interface) string {
	if nic.Properties == nil {
		return ""
	}
	return string(ptr.Deref(nic.Properties.ProvisioningState, ""))
}

// requestInterface requests the public address and then the network interface.
func (d *Driver) requestInterface(ctx context.Context, config InstanceConfig, input request.Input) error {
	if err := d.ensureAddress(ctx, config, input); err != nil {
		return err
	}
	return d.putInterface(ctx, config, input)
}

// ensureAddress requests the public address of a machine that has one.
func (d *Driver) ensureAddress(ctx context.Context, config InstanceConfig, input request.Input) error {
	if !ptr.Deref(config.Spec.NetworkInterface.PublicIP, false) {
		return nil
	}
	found, err := d.readAddress(ctx, input.Identity)
	if err != nil {
		return err
	}
	if found == nil || addressState(found) == failed {
		answered := (*http.Response)(nil)
		_, err := d.addresses.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &answered), d.place.ResourceGroup, request.Name(input.Identity.UID), request.PublicIPAddress(input), nil)
		if err != nil {
			return toCreateError(err, config, "spec.networkInterface")
		}
		logr.FromContextOrDiscard(ctx).Info("requested public IP address", "address", request.Name(input.Identity.UID))
		found = &armnetwork.PublicIPAddress{}
		if err := runtime.UnmarshalAsJSON(answered, found); err != nil {
			return fmt.Errorf("reading the answer of Azure: %w", err)
		}
	}
	if addressState(found) != succeeded {
		return &driver.UnfinishedError{Err: errPreparing}
	}
	return nil
}

func addressState(address *armnetwork.PublicIPAddress) string {
	if address.Properties == nil {
		return ""
	}
	return string(ptr.Deref(address.Properties.ProvisioningState, ""))
}

// putInterface requests the network interface. Repeated, the request changes nothing.
func (d *Driver) putInterface(ctx context.Context, config InstanceConfig, input request.Input) error {
	answered := (*http.Response)(nil)
	_, err := d.nics.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &answered), d.place.ResourceGroup, request.Name(input.Identity.UID), request.NetworkInterface(input), nil)
	if err != nil {
		return d.interfaceRefused(ctx, config, input, toCreateError(err, config, "spec.networkInterface"))
	}
	logr.FromContextOrDiscard(ctx).Info("requested network interface", "interface", request.Name(input.Identity.UID))
	nic := &armnetwork.Interface{}
	if err := runtime.UnmarshalAsJSON(answered, nic); err != nil {
		return fmt.Errorf("reading the answer of Azure: %w", err)
	}
	if interfaceState(nic) != succeeded {
		return &driver.UnfinishedError{Err: errPreparing}
	}
	return nil
}

// interfaceRefused returns why a network interface was refused. What Azure deletes with an earlier virtual machine may be read for
// a moment after that is gone, so a request that names the address may be invalid for that reason only.
func (d *Driver) interfaceRefused(ctx context.Context, config InstanceConfig, input request.Input, refusal error) error {
	if !driver.IsInvalidConfiguration(refusal) || !ptr.Deref(config.Spec.NetworkInterface.PublicIP, false) {
		return refusal
	}
	address, err := d.readAddress(ctx, input.Identity)
	if err != nil {
		return err
	}
	if address == nil || addressState(address) == deleting {
		return &driver.UnfinishedError{Err: errCleaning}
	}
	return refusal
}

// request requests the virtual machine. With If-None-Match Azure refuses that if the name is in use, instead of changing what
// has it.
func (d *Driver) request(ctx context.Context, req driver.CreateRequest[InstanceConfig], vm armcompute.VirtualMachine) (driver.Instance, error) {
	answered := (*http.Response)(nil)
	_, err := d.vms.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &answered), d.place.ResourceGroup, req.Identity.Name, vm,
		&armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: ptr.To("*")})
	if err != nil {
		return d.notAccepted(ctx, req, err)
	}
	logr.FromContextOrDiscard(ctx).Info("requested virtual machine", "name", req.Identity.Name)
	accepted := &armcompute.VirtualMachine{}
	if err := runtime.UnmarshalAsJSON(answered, accepted); err != nil {
		return driver.Instance{}, fmt.Errorf("reading the answer of Azure: %w", err)
	}
	if provisioning(accepted) == succeeded {
		return d.continueCreation(ctx, req, accepted)
	}
	return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
}

// notAccepted returns why a request was refused, after a direct read has proven that there is no virtual machine: another process
// may have requested the same, or an earlier request whose answer was lost was carried out. A request is not invalid because its
// network interface is gone, which Azure deletes some time after the earlier virtual machine.
func (d *Driver) notAccepted(ctx context.Context, req driver.CreateRequest[InstanceConfig], cause error) (driver.Instance, error) {
	refusal := toCreateError(cause, req.Config, "spec")
	invalid := driver.IsInvalidConfiguration(refusal)
	if !nameInUse(cause) && !driver.IsInsufficientCapacity(refusal) && !driver.IsQuotaExceeded(refusal) && !invalid {
		return driver.Instance{}, refusal
	}
	found, err := d.read(ctx, req.Identity.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil {
		return d.continueCreation(ctx, req, found)
	}
	if nameInUse(cause) {
		return driver.Instance{}, &driver.UnfinishedError{Err: errCleaning}
	}
	if invalid {
		nic, err := d.readInterface(ctx, req.Identity)
		if err != nil {
			return driver.Instance{}, err
		}
		if nic == nil || interfaceState(nic) == deleting {
			return driver.Instance{}, &driver.UnfinishedError{Err: errCleaning}
		}
	}
	return driver.Instance{}, refusal
}

// continueCreation returns the virtual machine with the machine's name if it is the machine's and runs. One that Azure could not
// start is deleted, and once it is gone, Create returns why.
func (d *Driver) continueCreation(ctx context.Context, req driver.CreateRequest[InstanceConfig], found *armcompute.VirtualMachine) (driver.Instance, error) {
	instance, err := req.Identity.Checked(d.toInstance(found))
	switch {
	case err != nil && tag.Decode(found.Tags).UID == req.Identity.UID:
		return driver.Instance{}, err
	case err != nil:
		if _, err := d.readInterface(ctx, req.Identity); err != nil {
			return driver.Instance{}, err // the UID is that of another machine, too
		}
		return driver.Instance{}, fmt.Errorf("the resource group has another virtual machine with the name of this machine (%s): delete one of them", instance.ProviderID)
	case provisioning(found) == deleting:
		return driver.Instance{}, &driver.UnfinishedError{Err: errCleaning}
	case !mayFail(found):
		d.refusals.Delete(machineKey(req.Identity))
		d.dataDisks.Delete(machineKey(req.Identity))
		instance.Addresses, err = d.readAddresses(ctx, found)
		return instance, err
	case provisioning(found) != failed:
		return driver.Instance{}, &driver.UnfinishedError{Err: errCreating}
	}
	d.refusals.Set(machineKey(req.Identity), toFailure(failureCode(found), req.Config))
	if err := d.deleteVirtualMachine(ctx, req.Identity, found); err != nil {
		return driver.Instance{}, err
	}
	return driver.Instance{}, &driver.UnfinishedError{Err: errCleaning}
}
