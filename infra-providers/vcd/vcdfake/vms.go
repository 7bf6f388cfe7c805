// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcdfake

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/go-vcloud-director/v3/types/v56"
)

func (c *Cloud) task(r call) (any, error) {
	for _, t := range c.tasks {
		if t.id == r.id {
			shown := t.Task
			return &shown, nil
		}
	}
	return nil, forbidden("TASK_VIEW")
}

func (c *Cloud) vApp(r call) (any, error) {
	of, ok := c.vApps[r.id]
	if !ok {
		return nil, forbidden("VAPP_VIEW")
	}
	shown := &types.VApp{
		HREF: publicURL + "/api/vApp/vapp-" + of.id, ID: "urn:vcloud:vapp:" + of.id, Name: of.name, Description: of.description,
		Tasks: c.tasksOf("vapp-" + of.id), Children: &types.VAppChildren{},
		NetworkConfigSection: &types.NetworkConfigSection{NetworkConfig: []types.VAppNetworkConfiguration{
			{NetworkName: "none", Configuration: &types.NetworkConfiguration{}}, {NetworkName: Network, Configuration: &types.NetworkConfiguration{}},
		}},
	}
	for _, id := range slices.Sorted(maps.Keys(c.vms)) {
		found := c.vms[id]
		if found.vApp == of.id && (!c.options.LateChildren || found.Status != statusUnresolved) {
			shown.Children.VM = append(shown.Children.VM, c.show(found))
		}
	}
	return shown, nil
}

// show returns a virtual machine with its tasks.
func (c *Cloud) show(of *vm) *types.Vm {
	shown := of.Vm
	shown.Tasks = c.tasksOf("vm-" + of.id)
	return &shown
}

// find returns a virtual machine that can be read.
func (c *Cloud) find(r call, right string) (*vm, error) {
	found, ok := c.vms[r.id]
	if !ok || c.options.LateChildren && found.Status == statusUnresolved {
		return nil, forbidden(right)
	}
	return found, nil
}

func (c *Cloud) vm(r call) (any, error) {
	found, err := c.find(r, "VAPP_VM_VIEW")
	if err != nil {
		return nil, err
	}
	shown := c.show(found)
	if found.late > 0 {
		found.late--
		shown.VmSpecSection = found.before
	}
	return shown, nil
}

// recompose adds a virtual machine to a vApp.
func (c *Cloud) recompose(r call) (any, error) {
	request, err := decode[types.ReComposeVAppParams](c, r.body)
	if err != nil {
		return nil, err
	}
	into, ok := c.vApps[r.id]
	if !ok {
		return nil, forbidden("VAPP_RECOMPOSE")
	}
	item := request.SourcedItem
	if err := c.checkRecomposition(into, request); err != nil {
		return nil, err
	}
	made, err := c.newVM(r.id, item)
	if err != nil {
		return nil, err
	}
	on := work{owner: publicURL + "/api/vApp/vapp-" + r.id, shownBy: []string{"vapp-" + r.id, "vm-" + made.id}}
	for id, other := range c.vms {
		if other.vApp == r.id {
			on.others = append(on.others, "vm-"+id)
		}
	}
	started, err := c.start("vdcRecomposeVapp", on, func(failed bool) {
		switch {
		case failed && c.options.KeepFailed:
			made.Status = statusFailed
		case failed:
			delete(c.vms, made.id)
		case c.options.Memory:
			made.Status = statusSuspended
		default:
			made.Status = statusOff
		}
	})
	if err != nil {
		return nil, err
	}
	c.vms[made.id] = made
	return started, nil
}

// checkRecomposition refuses a request that is incomplete or whose name is in use.
func (c *Cloud) checkRecomposition(into *vApp, request *types.ReComposeVAppParams) error {
	item := request.SourcedItem
	if item == nil || item.Source == nil || item.VMGeneralParams == nil || item.InstantiationParams == nil || request.DeleteItem != nil {
		return refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request")
	}
	if request.Name != into.name || request.Description != into.description {
		c.violate("the recomposition changes the vApp to %q, %q", request.Name, request.Description)
	}
	for _, other := range c.vms {
		if other.vApp == into.id && other.Name == item.Source.Name {
			return refuse(http.StatusBadRequest, "BAD_REQUEST", "There is already a VM named %q.", other.Name)
		}
	}
	return nil
}

// newVM returns what a request makes of a template.
func (c *Cloud) newVM(into string, item *types.SourcedCompositionItemParam) (*vm, error) {
	template := ""
	for _, names := range templates {
		for _, name := range names {
			if item.Source.HREF == publicURL+"/api/vAppTemplate/vm-"+c.id("template vm "+name) {
				template = c.id("template vm " + name)
			}
		}
	}
	if template == "" {
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "The source %q is unknown", item.Source.HREF)
	}
	id := uuid.NewString()
	cpus, cores, thin := 1, 1, true
	made := &vm{id: id, vApp: into, template: template, metadata: map[string]string{}, hidden: c.hide}
	c.hide = 0
	made.Vm = types.Vm{
		HREF: publicURL + "/api/vApp/vm-" + id, ID: "urn:vcloud:vm:" + id, Type: types.MimeVM, Name: item.Source.Name, Description: item.VMGeneralParams.Description,
		Status: statusUnresolved, DateCreated: time.Now().UTC().Format("2006-01-02T15:04:05.000Z0700"),
		GuestCustomizationSection: item.InstantiationParams.GuestCustomizationSection,
		VmSpecSection: &types.VmSpecSection{NumCpus: &cpus, NumCoresPerSocket: &cores, MemoryResourceMb: &types.MemoryResourceMb{Configured: 1024},
			DiskSection: &types.DiskSection{DiskSettings: []*types.DiskSettings{{DiskId: "2000", SizeMb: 10240, AdapterType: "5", ThinProvisioned: &thin}}}},
		StorageProfile: item.StorageProfile,
	}
	if err := c.applyPolicies(made, item.ComputePolicy); err != nil {
		return nil, err
	}
	return made, c.connect(made, item.InstantiationParams.NetworkConnectionSection)
}

func (c *Cloud) applyPolicies(made *vm, of *types.ComputePolicy) error {
	if of == nil {
		return nil
	}
	made.ComputePolicy = of
	for _, reference := range []*types.Reference{of.VmPlacementPolicy, of.VmSizingPolicy} {
		if reference == nil {
			continue
		}
		at := slices.IndexFunc(c.policies, func(p *types.VdcComputePolicyV2) bool {
			return p.ID == reference.ID && strings.HasSuffix(reference.HREF, "/cloudapi/1.0.0/vdcComputePolicies/"+p.ID)
		})
		if at < 0 || c.policies[at].IsSizingOnly != (reference == of.VmSizingPolicy) {
			return refuse(http.StatusBadRequest, "BAD_REQUEST", "The policy %q is unknown", reference.HREF)
		}
		if policy := c.policies[at]; policy.CPUCount != nil {
			made.VmSpecSection.NumCpus = policy.CPUCount
			made.VmSpecSection.MemoryResourceMb = &types.MemoryResourceMb{Configured: int64(*policy.Memory)}
		}
	}
	return nil
}

// connect allocates addresses.
func (c *Cloud) connect(made *vm, section *types.NetworkConnectionSection) error {
	if section == nil {
		section = &types.NetworkConnectionSection{NetworkConnection: []*types.NetworkConnection{{Network: "none", IPAddressAllocationMode: "NONE"}}}
	}
	for _, connection := range section.NetworkConnection {
		switch connection.IPAddressAllocationMode {
		case "POOL":
			c.addresses++
			connection.IPAddress = fmt.Sprintf("10.1.%d.%d", c.addresses/250, c.addresses%250+1)
		case "MANUAL", "DHCP", "NONE":
		default:
			return refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request - IpAddressAllocationMode")
		}
	}
	made.NetworkConnectionSection = section
	return nil
}

// change starts a task on a virtual machine.
func (c *Cloud) change(r call, operation string, do func(*vm)) (any, error) {
	of, err := c.find(r, operation)
	if err != nil {
		return nil, err
	}
	return c.started(c.start(operation, work{owner: of.HREF, shownBy: []string{"vm-" + of.id}}, func(failed bool) {
		if !failed {
			do(of)
		}
	}))
}

func (c *Cloud) started(t *types.Task, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (c *Cloud) reconfigure(r call) (any, error) {
	request, err := decode[types.Vm](c, r.body)
	if err != nil {
		return nil, err
	}
	of, err := c.find(r, "VAPP_UPDATE_VM")
	if err != nil {
		return nil, err
	}
	if err := checkReconfiguration(of, request); err != nil {
		return nil, err
	}
	want := request.VmSpecSection
	return c.change(r, "vappUpdateVm", func(of *vm) {
		have := *of.VmSpecSection
		if want.NumCpus != nil {
			have.NumCpus = want.NumCpus
			if !c.options.IgnoreCores {
				have.NumCoresPerSocket = want.NumCoresPerSocket
			}
		}
		if want.MemoryResourceMb != nil {
			have.MemoryResourceMb = want.MemoryResourceMb
		}
		if want.DiskSection != nil {
			have.DiskSection = want.DiskSection
			if c.options.IgnoreIOPS {
				have.DiskSection.DiskSettings[0].IopsAllocation = nil
			}
		}
		of.before, of.late = of.VmSpecSection, c.options.LateHardware
		of.VmSpecSection = &have
	})
}

// checkReconfiguration refuses a request that is not possible now, or would change something else.
func checkReconfiguration(of *vm, request *types.Vm) error {
	want := request.VmSpecSection
	switch {
	case of.Status == statusOn || isSuspended(of):
		return refuse(http.StatusBadRequest, "OPERATION_NOT_SUPPORTED", "The VM is powered on or suspended")
	case request.Name != of.Name || request.Description != of.Description || want == nil:
		return refuse(http.StatusBadRequest, "BAD_REQUEST", "The name or description would change")
	case want.NumCpus != nil && (want.NumCoresPerSocket == nil || *want.NumCpus%*want.NumCoresPerSocket != 0):
		return refuse(http.StatusBadRequest, "BAD_REQUEST", "The CPUs are not a multiple of the cores")
	case want.DiskSection != nil && (len(want.DiskSection.DiskSettings) != len(of.VmSpecSection.DiskSection.DiskSettings) || want.DiskSection.DiskSettings[0].SizeMb < of.VmSpecSection.DiskSection.DiskSettings[0].SizeMb):
		return refuse(http.StatusBadRequest, "BAD_REQUEST", "A disk would be deleted or shrunk")
	}
	return nil
}

func (c *Cloud) readProductSections(r call) (any, error) {
	found, err := c.find(r, "VAPP_VM_VIEW")
	if err != nil {
		return nil, err
	}
	return &types.ProductSectionList{Xmlns: types.XMLNamespaceVCloud, Ovf: types.XMLNamespaceOVF, ProductSection: found.properties}, nil
}

func (c *Cloud) setProductSections(r call) (any, error) {
	request, err := decode[types.ProductSectionList](c, r.body)
	if err != nil {
		return nil, err
	}
	return c.change(r, "vappUpdateProductSection", func(of *vm) {
		if c.options.IgnoreProperties {
			return
		}
		of.properties = request.ProductSection
		if c.options.KeepProperties {
			of.properties.Property = append(of.properties.Property, &types.Property{Key: "public-keys", Type: "string", Value: &types.Value{}})
		}
	})
}

func entry(key, value string) *types.MetadataEntry {
	return &types.MetadataEntry{
		Key: key, Domain: &types.MetadataDomainTag{Visibility: "READWRITE", Domain: "GENERAL"}, TypedValue: &types.MetadataTypedValue{XsiType: "MetadataStringValue", Value: value},
	}
}

func (c *Cloud) readMetadata(r call) (any, error) {
	found, err := c.find(r, "METADATA_VIEW")
	if err != nil {
		return nil, err
	}
	answer := &types.Metadata{Xmlns: types.XMLNamespaceVCloud}
	for _, key := range slices.Sorted(maps.Keys(found.metadata)) {
		answer.MetadataEntry = append(answer.MetadataEntry, entry(key, found.metadata[key]))
	}
	return answer, nil
}

func (c *Cloud) setMetadata(r call) (any, error) {
	request, err := decode[types.Metadata](c, r.body)
	if err != nil {
		return nil, err
	}
	for _, e := range request.MetadataEntry {
		if e.Domain == nil || e.Domain.Domain != "GENERAL" || e.TypedValue == nil || e.TypedValue.XsiType != "MetadataStringValue" || len(e.Key) > 256 || strings.Contains(e.Key, "/") {
			return nil, refuse(http.StatusForbidden, "ACCESS_TO_RESOURCE_IS_FORBIDDEN", "A tenant may not write the entry %q", e.Key)
		}
	}
	return c.change(r, metadataUpdate, func(of *vm) {
		for _, e := range request.MetadataEntry {
			of.metadata[e.Key] = e.TypedValue.Value
		}
	})
}

func (c *Cloud) powerOn(r call) (any, error) {
	return c.change(r, "vappDeploy", func(of *vm) {
		of.Status, of.Deployed = statusOn, true
		for _, connection := range of.NetworkConnectionSection.NetworkConnection {
			if connection.IPAddressAllocationMode == "DHCP" {
				c.addresses++
				connection.IPAddress = fmt.Sprintf("10.2.%d.%d", c.addresses/250, c.addresses%250+1)
			}
		}
	})
}

func (c *Cloud) reset(r call) (any, error) {
	of, err := c.find(r, "VAPP_RESET")
	if err != nil {
		return nil, err
	}
	if of.Status != statusOn {
		return nil, refuse(http.StatusBadRequest, "OPERATION_NOT_SUPPORTED", "The VM is not powered on")
	}
	answer, err := c.change(r, "vappReset", func(*vm) {})
	if err == nil {
		c.resets++
	}
	return answer, err
}

func (c *Cloud) undeploy(r call) (any, error) {
	request, err := decode[types.UndeployVAppParams](c, r.body)
	if err != nil {
		return nil, err
	}
	if request.UndeployPowerAction != "powerOff" {
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request - UndeployPowerAction")
	}
	if of, err := c.find(r, "VAPP_UNDEPLOY"); err == nil && !of.Deployed {
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "The requested operation could not be executed since VM %q is not running.", of.Name)
	}
	return c.change(r, "vappUndeployPowerOff", func(of *vm) { of.Status, of.Deployed = statusOff, false })
}

func isSuspended(of *vm) bool {
	return of.Status == statusSuspended || of.Status == statusPartlySuspended
}

// discard discards the memory of a suspended virtual machine.
func (c *Cloud) discard(r call) (any, error) {
	of, err := c.find(r, "VAPP_DISCARD_STATE")
	if err != nil {
		return nil, err
	}
	if of.Status != statusSuspended {
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "The VM is not suspended")
	}
	return c.change(r, "vappDiscardSuspendedState", func(of *vm) { of.Status = statusOff })
}

// detach detaches an independent disk, which the tests of the SDK have Director refuse of what is suspended.
func (c *Cloud) detach(r call) (any, error) {
	request, err := decode[types.DiskAttachOrDetachParams](c, r.body)
	if err != nil {
		return nil, err
	}
	if of, err := c.find(r, "VAPP_DETACH_DISK"); err == nil && isSuspended(of) {
		return nil, refuse(http.StatusBadRequest, "OPERATION_NOT_SUPPORTED", "The VM is suspended")
	}
	return c.change(r, "vappDetachDisk", func(of *vm) {
		section := of.VmSpecSection.DiskSection
		section.DiskSettings = slices.DeleteFunc(slices.Clone(section.DiskSettings), func(disk *types.DiskSettings) bool {
			return disk.Disk != nil && disk.Disk.HREF == request.Disk.HREF
		})
		c.disks[strings.TrimPrefix(request.Disk.HREF, publicURL+"/api/disk/")] = ""
	})
}

// remove deletes a virtual machine. Whether Director refuses that while independent disks are attached is not known; here they
// are deleted with it, so that a test finds it.
func (c *Cloud) remove(r call) (any, error) {
	of, err := c.find(r, "VAPP_DELETE_VM")
	if err != nil {
		return nil, err
	}
	if of.Deployed || isSuspended(of) {
		return nil, refuse(http.StatusBadRequest, "OPERATION_NOT_SUPPORTED", "The VM is deployed or suspended")
	}
	return c.started(c.start("vappDeleteVm", work{owner: of.HREF, shownBy: []string{"vm-" + of.id}, others: []string{"vapp-" + of.vApp}}, func(failed bool) {
		if failed {
			return
		}
		delete(c.vms, of.id)
		for disk, at := range c.disks {
			if at == of.id {
				delete(c.disks, disk)
			}
		}
	}))
}
