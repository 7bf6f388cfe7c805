// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"context"
	"maps"
	"net/http"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"
)

// The provisioning states.
const (
	creating  = "Creating"
	succeeded = "Succeeded"
	failed    = "Failed"
	deleting  = "Deleting"
)

func (c *Cloud) newComputeTransport() transport {
	return computefake.NewServerFactoryTransport(&computefake.ServerFactory{
		VirtualMachinesServer: computefake.VirtualMachinesServer{
			BeginCreateOrUpdate: c.putMachine, Get: c.getMachine, BeginUpdate: c.patchMachine, BeginDelete: c.deleteMachine,
			BeginRestart: c.restartMachine, RetrieveBootDiagnosticsData: c.consoleOf,
		},
		DisksServer:                  computefake.DisksServer{Get: c.getDisk, BeginUpdate: c.patchDisk, BeginDelete: c.deleteDisk},
		VirtualMachineImagesServer:   computefake.VirtualMachineImagesServer{List: c.listImages, Get: c.getImage},
		ImagesServer:                 computefake.ImagesServer{Get: getManagedImage},
		GalleryImagesServer:          computefake.GalleryImagesServer{Get: getGalleryImage},
		GalleryImageVersionsServer:   computefake.GalleryImageVersionsServer{Get: getGalleryVersion},
		CommunityGalleryImagesServer: computefake.CommunityGalleryImagesServer{Get: getCommunityImage},
	})
}

// putMachine accepts a virtual machine. A request without If-None-Match changes the one that has the name, which is a violation:
// it might be another's.
func (c *Cloud) putMachine(ctx context.Context, _, name string, sent armcompute.VirtualMachine, options *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
	if options == nil || ptr.Deref(options.IfNoneMatch, "") != "*" {
		c.violate("the virtual machine %q was requested without If-None-Match", name)
	}
	if c.vms[name] != nil {
		errResp.SetError(refuse(http.StatusPreconditionFailed, "PreconditionFailed", "The condition '*' in the If-None-Match header was not satisfied."))
		return resp, errResp
	}
	if err := c.validate(name, sent); err != nil {
		errResp.SetError(err)
		return resp, errResp
	}
	fault, _ := ctx.Value(faultKey{}).(Fault)
	vm := &machine{model: sent, pending: c.options.CreateReads, failure: fault.Allocation, leavesDisks: fault.LeavesDisks, unlisted: max(c.options.ListDelay, c.hidden)}
	c.hidden = 0
	c.now = c.now.Add(1e9)
	vm.model.ID, vm.model.Name, vm.model.Type = ptr.To(id("Microsoft.Compute/virtualMachines", name)), &name, ptr.To("Microsoft.Compute/virtualMachines")
	vm.model.Properties.ProvisioningState, vm.model.Properties.TimeCreated = ptr.To(creating), ptr.To(c.now)
	c.customData = append(c.customData, vm.model.Properties.OSProfile.CustomData)
	vm.model.Properties.OSProfile.CustomData = nil // no answer has it
	c.vms[name] = vm
	c.requests = append(c.requests, sent)
	c.createDisks(vm)
	for _, nic := range c.interfacesOf(vm) {
		nic.model.Properties.VirtualMachine = &armnetwork.SubResource{ID: vm.model.ID}
	}
	if vm.failure == "" {
		c.progress(name, vm)
	}
	resp.SetTerminalResponse(http.StatusCreated, armcompute.VirtualMachinesClientCreateOrUpdateResponse{VirtualMachine: vm.model}, nil)
	return resp, errResp
}

// createDisks creates the disks of a virtual machine, with its tags.
func (c *Cloud) createDisks(vm *machine) {
	storage := vm.model.Properties.StorageProfile
	create := func(name *string) {
		c.disks[*name] = &disk{armcompute.Disk{
			ID: ptr.To(id("Microsoft.Compute/disks", *name)), Name: name, Location: vm.model.Location, Tags: maps.Clone(vm.model.Tags), ManagedBy: vm.model.ID,
			Properties: &armcompute.DiskProperties{ProvisioningState: ptr.To(succeeded), TimeCreated: ptr.To(c.now), CreationData: &armcompute.CreationData{CreateOption: ptr.To(armcompute.DiskCreateOptionFromImage)}},
		}}
	}
	if storage.OSDisk.DiffDiskSettings == nil {
		create(storage.OSDisk.Name)
	}
	for _, data := range storage.DataDisks {
		create(data.Name)
	}
}

// progress lets one step of a virtual machine happen once it is no longer pending.
func (c *Cloud) progress(name string, vm *machine) {
	if vm.pending > 0 {
		vm.pending--
		return
	}
	properties := vm.model.Properties
	switch state := *properties.ProvisioningState; {
	case state == deleting:
		c.remove(name, vm)
	case state == creating && vm.failure != "":
		properties.ProvisioningState = ptr.To(failed)
		if vm.leavesDisks {
			c.detachDisks(vm)
		}
	case state == creating && vm.power == "":
		vm.power = "running" // the guest has not reported that it is ready
	case state == creating:
		properties.ProvisioningState = ptr.To(succeeded)
	}
}

// remove removes a virtual machine and what is to be deleted with it.
func (c *Cloud) remove(name string, vm *machine) {
	storage := vm.model.Properties.StorageProfile
	attached := map[string]bool{}
	if storage.OSDisk != nil {
		attached[*storage.OSDisk.Name] = ptr.Deref(storage.OSDisk.DeleteOption, "") == armcompute.DiskDeleteOptionTypesDelete
	}
	for _, data := range storage.DataDisks {
		attached[*data.Name] = ptr.Deref(data.DeleteOption, "") == armcompute.DiskDeleteOptionTypesDelete
	}
	nics := c.interfacesOf(vm)
	c.detachAll(vm)
	delete(c.vms, name)
	if c.options.KeepsAttached {
		return
	}
	for disk, remove := range attached {
		if remove {
			delete(c.disks, disk)
		}
	}
	for _, nic := range nics {
		delete(c.nics, *nic.model.Name)
		for _, configuration := range nic.model.Properties.IPConfigurations {
			if address := configuration.Properties.PublicIPAddress; address != nil && address.ID != nil {
				delete(c.addresses, (*address.ID)[strings.LastIndex(*address.ID, "/")+1:])
			}
		}
	}
}

func (c *Cloud) detachAll(vm *machine) {
	c.detachDisks(vm)
	for _, nic := range c.interfacesOf(vm) {
		nic.model.Properties.VirtualMachine = nil
	}
}

func (c *Cloud) detachDisks(vm *machine) {
	for _, disk := range c.disks {
		if disk.model.ManagedBy != nil && *disk.model.ManagedBy == *vm.model.ID {
			disk.model.ManagedBy = nil
		}
	}
}

// interfacesOf are the network interfaces of a virtual machine that are deleted with it.
func (c *Cloud) interfacesOf(vm *machine) (all []*networkInterface) {
	for _, reference := range vm.model.Properties.NetworkProfile.NetworkInterfaces {
		if nic := c.nics[(*reference.ID)[strings.LastIndex(*reference.ID, "/")+1:]]; nic != nil {
			all = append(all, nic)
		}
	}
	return all
}

func notFound(kind, name string) error {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s/%s' under resource group '%s' was not found.", kind, name, ResourceGroup)
}

func (c *Cloud) getMachine(_ context.Context, _, name string, options *armcompute.VirtualMachinesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientGetResponse], errResp azfake.ErrorResponder) {
	if vm := c.vms[name]; vm != nil {
		c.progress(name, vm)
	}
	vm := c.vms[name]
	if vm == nil {
		errResp.SetError(notFound("Microsoft.Compute/virtualMachines", name))
		return resp, errResp
	}
	answered, properties := vm.model, *vm.model.Properties
	answered.Properties = &properties
	if options != nil && ptr.Deref(options.Expand, "") == armcompute.InstanceViewTypesInstanceView {
		properties.InstanceView = &armcompute.VirtualMachineInstanceView{Statuses: statuses(vm)}
	}
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: answered}, nil)
	return resp, errResp
}

// statuses are those of the instance view.
func statuses(vm *machine) []*armcompute.InstanceViewStatus {
	code := "ProvisioningState/" + strings.ToLower(*vm.model.Properties.ProvisioningState)
	switch {
	case code == "ProvisioningState/failed":
		code += "/" + vm.failure
	case code == "ProvisioningState/creating" && vm.power != "":
		code += "/OSProvisioningInprogress"
	}
	all := []*armcompute.InstanceViewStatus{{Code: &code, Level: ptr.To(armcompute.StatusLevelTypesInfo), DisplayStatus: ptr.To("status")}}
	if vm.power != "" {
		all = append(all, &armcompute.InstanceViewStatus{Code: ptr.To("PowerState/" + vm.power)})
	}
	return all
}

func (c *Cloud) patchMachine(_ context.Context, _, name string, sent armcompute.VirtualMachineUpdate, _ *armcompute.VirtualMachinesClientBeginUpdateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientUpdateResponse], errResp azfake.ErrorResponder) {
	vm := c.vms[name]
	if vm == nil {
		errResp.SetError(notFound("Microsoft.Compute/virtualMachines", name))
		return resp, errResp
	}
	if sent.Tags != nil {
		vm.model.Tags = sent.Tags
	}
	if sent.Properties != nil && sent.Properties.StorageProfile != nil && sent.Properties.StorageProfile.DataDisks != nil {
		vm.model.Properties.StorageProfile.DataDisks = sent.Properties.StorageProfile.DataDisks
	}
	resp.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientUpdateResponse{VirtualMachine: vm.model}, nil)
	return resp, errResp
}

func (c *Cloud) deleteMachine(_ context.Context, _, name string, options *armcompute.VirtualMachinesClientBeginDeleteOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], errResp azfake.ErrorResponder) {
	vm := c.vms[name]
	if vm == nil {
		resp.SetTerminalResponse(http.StatusNoContent, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
		return resp, errResp
	}
	if options == nil || ptr.Deref(options.ForceDeletion, true) {
		for _, data := range vm.model.Properties.StorageProfile.DataDisks {
			if strings.HasPrefix(*data.Name, foreignDisk) {
				c.violate("the deletion of the virtual machine %q was forced while it has the disk %q of another owner", name, *data.Name)
			}
		}
	}
	vm.model.Properties.ProvisioningState, vm.pending, vm.power = ptr.To(deleting), c.options.DeleteReads, ""
	if c.options.DeleteReads == 0 {
		c.remove(name, vm)
	}
	resp.SetTerminalResponse(http.StatusAccepted, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
	return resp, errResp
}

func (c *Cloud) restartMachine(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientBeginRestartOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientRestartResponse], errResp azfake.ErrorResponder) {
	if c.vms[name] == nil {
		errResp.SetError(notFound("Microsoft.Compute/virtualMachines", name))
		return resp, errResp
	}
	c.resets++
	resp.SetTerminalResponse(http.StatusAccepted, armcompute.VirtualMachinesClientRestartResponse{}, nil)
	return resp, errResp
}

func (c *Cloud) consoleOf(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataResponse], errResp azfake.ErrorResponder) {
	vm := c.vms[name]
	if vm == nil {
		errResp.SetError(notFound("Microsoft.Compute/virtualMachines", name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataResponse{RetrieveBootDiagnosticsDataResult: armcompute.RetrieveBootDiagnosticsDataResult{
		SerialConsoleLogBlobURI: ptr.To(c.url + consolePath + name + ".serialconsole.log?sig=signed"),
	}}, nil)
	return resp, errResp
}
