// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanixfake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	common "github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/common/v1/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/content"
	groups "github.com/nutanix/ntnx-api-golang-clients/volumes-go-client/v4/models/volumes/v4/config"
	"k8s.io/utils/ptr"
)

func (vm *virtualMachine) etag() string { return fmt.Sprintf("YXBpdmVyc2lvbg==:%d", vm.version) }

// shown returns the virtual machines that a list has.
func (c *Cloud) shown() (all []config.Vm) {
	for _, id := range c.order {
		vm := c.vms[id]
		if vm.hidden > 0 {
			vm.hidden--
			continue
		}
		shown := vm.Vm
		shown.GuestCustomization = nil
		all = append(all, shown)
	}
	return all
}

// get answers what only reads.
func (c *Cloud) get(r *http.Request, path string) (answer, error) {
	if at := strings.LastIndex(path, "/"); idPattern.MatchString(path[at:]) {
		return c.getOne(path[:at], path[at+1:])
	}
	switch path {
	case "vmm/ahv/config/vms":
		found, total, err := page(r, c.shown(), named(func(v config.Vm) *string { return v.Name }))
		return answer{http.StatusOK, "", filled(config.NewListVmsApiResponse(), found), total}, err
	case "prism/config/categories":
		found, total, err := page(r, c.categories, func(of tasks.Category, name string) (string, bool) {
			values := map[string]*string{"key": of.Key, "value": of.Value}
			return ptr.Deref(values[name], ""), values[name] != nil
		})
		return answer{http.StatusOK, "", filled(tasks.NewListCategoriesApiResponse(), found), total}, err
	case "vmm/content/images":
		found, total, err := page(r, c.images, named(func(i content.Image) *string { return i.Name }))
		return answer{http.StatusOK, "", filled(content.NewListImagesApiResponse(), found), total}, err
	case "clustermgmt/config/clusters":
		found, total, err := page(r, c.clusters, named(func(i clusters.Cluster) *string { return i.Name }))
		return answer{http.StatusOK, "", filled(clusters.NewListClustersApiResponse(), found), total}, err
	case "clustermgmt/config/storage-containers":
		found, total, err := page(r, c.containers, named(func(i clusters.StorageContainer) *string { return i.Name }))
		return answer{http.StatusOK, "", filled(clusters.NewListStorageContainersApiResponse(), found), total}, err
	case "networking/config/subnets":
		found, total, err := page(r, c.subnets, named(func(i networks.Subnet) *string { return i.Name }))
		return answer{http.StatusOK, "", filled(networks.NewListSubnetsApiResponse(), found), total}, err
	}
	return c.noPath(r.Method, path)
}

// getOne answers with one entity of a kind.
func (c *Cloud) getOne(kind, id string) (answer, error) {
	switch kind {
	case "vmm/ahv/config/vms":
		vm, ok := c.vms[id]
		if !ok {
			return answer{}, refuse(http.StatusNotFound, "VMM-30100", "VM_NOT_FOUND", "there is no VM")
		}
		shown := vm.Vm
		shown.GuestCustomization = nil
		return answer{http.StatusOK, vm.etag(), filled(config.NewGetVmApiResponse(), shown), -1}, nil
	case "prism/config/tasks":
		found, ok := c.tasks[id]
		if !ok {
			return answer{}, refuse(http.StatusNotFound, "TASK-50001", "TASK_NOT_FOUND", "there is no task")
		}
		return answer{http.StatusOK, "", filled(tasks.NewGetTaskApiResponse(), *found.show()), -1}, nil
	case "vmm/content/images":
		for _, image := range c.images {
			if *image.ExtId == id {
				return answer{http.StatusOK, "image", filled(content.NewGetImageApiResponse(), image), -1}, nil
			}
		}
		return answer{}, refuse(http.StatusNotFound, "VMM-20005", "IMAGE_NOT_FOUND", "there is no image")
	case "volumes/config/volume-groups":
		if _, ok := c.groups[id]; !ok {
			return answer{}, refuse(http.StatusNotFound, "VOL-40101", "VOLUME_GROUP_NOT_FOUND", "there is no volume group")
		}
		group := groups.NewVolumeGroup()
		group.ExtId = &id
		return answer{http.StatusOK, "group", filled(groups.NewGetVolumeGroupApiResponse(), *group), -1}, nil
	}
	return c.noPath(http.MethodGet, kind+"/"+id)
}

// noPath answers a request that the API does not have.
func (c *Cloud) noPath(method, path string) (answer, error) {
	c.violate("%s %s: there is no such path", method, path)
	return answer{}, refuse(http.StatusNotFound, "", "", "no such path")
}

// change answers what begins a task, or creates a category.
func (c *Cloud) change(r *http.Request, path string, body []byte, fault Fault) (answer, error) {
	switch {
	case r.Method == http.MethodPost && path == "prism/config/categories":
		return c.createCategory(body)
	case r.Method == http.MethodPost && path == "vmm/ahv/config/vms":
		return c.createVM(body, fault)
	case r.Method == http.MethodPost && strings.HasPrefix(path, "volumes/config/volume-groups/") && strings.HasSuffix(path, "/$actions/detach-vm"):
		return c.detach(r, strings.Split(path, "/")[3], body, fault.Removal)
	}
	return c.changeVM(r, path, body, fault)
}

// changeVM answers what changes a virtual machine that exists.
func (c *Cloud) changeVM(r *http.Request, path string, body []byte, fault Fault) (answer, error) {
	id, action, _ := strings.Cut(strings.TrimPrefix(path, "vmm/ahv/config/vms/"), "/")
	vm, ok := c.vms[id]
	if !ok {
		return answer{}, refuse(http.StatusNotFound, "VMM-30100", "VM_NOT_FOUND", "there is no VM")
	}
	if match := r.Header.Get("If-Match"); match != vm.etag() {
		if match == "" {
			c.violate("%s %s has no If-Match", r.Method, path)
		}
		return answer{}, refuse(http.StatusPreconditionFailed, "VMM-30303", "VM_ETAG_MISMATCH", "If-Match header value passed does not match")
	}
	switch {
	case r.Method == http.MethodDelete && action == "":
		return c.deleteVM(id, fault.Removal), nil
	case r.Method == http.MethodPut && action == "":
		return c.updateVM(vm, body)
	case r.Method == http.MethodPost && action == "$actions/power-on":
		return c.powerOn(vm, fault), nil
	case r.Method == http.MethodPost && action == "$actions/reset":
		return c.reset(vm)
	}
	return c.noPath(r.Method, path)
}

func (c *Cloud) createCategory(body []byte) (answer, error) {
	wanted := tasks.NewCategory()
	if err := c.decode("POST categories", body, wanted); err != nil {
		return answer{}, err
	}
	for _, text := range []*string{wanted.Key, wanted.Value} {
		if text == nil || *text == "" || len(*text) > 64 || strings.ContainsAny(*text, "/,!\"#%'()*+:;=?\\|[]^&") || strings.HasPrefix(*text, "$") {
			c.violate("POST categories: the key or the value %q", ptr.Deref(text, ""))
			return answer{}, refuse(http.StatusBadRequest, "CTGRY-50001", "INVALID_CATEGORY", "the key or the value is not valid")
		}
	}
	if slices.ContainsFunc(c.categories, func(known tasks.Category) bool { return *known.Key == *wanted.Key && *known.Value == *wanted.Value }) {
		return answer{}, refuse(http.StatusConflict, "CTGRY-50002", "CATEGORY_ALREADY_EXISTS", "the category exists")
	}
	return answer{http.StatusCreated, "category", filled(tasks.NewCreateCategoryApiResponse(), *c.addCategory(*wanted.Key, *wanted.Value)), -1}, nil
}

// createVM begins the creation of a virtual machine, which is stopped.
func (c *Cloud) createVM(body []byte, fault Fault) (answer, error) {
	wanted := config.NewVm()
	if err := c.decode(createMethod, body, wanted); err != nil {
		return answer{}, err
	}
	c.sent = append(c.sent, json.RawMessage(body))
	// Clients that were tried with a real Prism Central remove them from what the SDK makes.
	for _, name := range []string{"$referenceItemDiscriminator", "$cloudInitScriptItemDiscriminator"} {
		if bytes.Contains(body, []byte(name)) {
			c.violate("%s: the attribute %s", createMethod, name)
		}
	}
	if err := c.check(wanted); err != nil {
		return answer{}, err
	}
	c.serial++
	vm := &virtualMachine{Vm: *wanted, version: 1, hidden: max(c.options.ListDelay, c.nextHide)}
	c.nextHide = 0
	vm.ExtId, vm.CreateTime, vm.PowerState = ptr.To(uuid(vmKind, c.serial)), ptr.To(c.options.Now().UTC().Add(time.Duration(c.serial))), config.POWERSTATE_OFF.Ref()
	for n := range vm.Nics {
		settings := config.NewIpv4Config()
		settings.IpAddress = common.NewIPv4Address()
		settings.IpAddress.Value = ptr.To(fmt.Sprintf("10.0.%d.%d", n, 1+c.serial%250))
		vm.Nics[n].NetworkInfo.Ipv4Config = settings
	}
	begun := c.begin("CreateVm", *vm.ExtId, fault.Task, func(t *task) {
		if t.fails == "" || fault.LeavesVM {
			c.reportDouble(vm)
			c.vms[*vm.ExtId] = vm
			c.order = append(c.order, *vm.ExtId)
		}
	})
	return accepted(begun.id), nil
}

func (c *Cloud) reportDouble(vm *virtualMachine) {
	for id, known := range c.vms {
		if c.options.ReportsDoubles && ptr.Equal(known.Description, vm.Description) {
			c.violate("%s: %s exists beside %s, which has the same description", createMethod, *vm.ExtId, id)
		}
	}
}

// check refuses a virtual machine that Prism Central refuses.
func (c *Cloud) check(vm *config.Vm) error {
	invalid := func(attribute, format string, values ...any) error {
		return &refusal{status: http.StatusBadRequest, text: fmt.Sprintf(format, values...), attribute: attribute}
	}
	bounds := map[string]bool{
		"name": len(ptr.Deref(vm.Name, "")) > 0 && len(*vm.Name) <= 80, "numSockets": ptr.Deref(vm.NumSockets, 0) >= 1,
		"numCoresPerSocket": ptr.Deref(vm.NumCoresPerSocket, 0) >= 1, "memorySizeBytes": ptr.Deref(vm.MemorySizeBytes, 0) >= 1,
		"powerState": vm.PowerState == nil, "cluster": vm.Cluster != nil && vm.Cluster.ExtId != nil, "disks": len(vm.Disks) > 0 && len(vm.Disks) <= 1024,
		"nics": len(vm.Nics) <= 64, "gpus": len(vm.Gpus) <= 16, "categories": len(vm.Categories) <= 256,
	}
	for attribute, ok := range bounds {
		if !ok {
			c.violate("%s: the attribute %s", createMethod, attribute)
			return invalid(attribute, "the attribute is out of its bounds")
		}
	}
	if err := c.checkReferences(vm, invalid); err != nil {
		return err
	}
	return c.checkDisks(vm)
}

// checkReferences refuses a virtual machine with a reference to what does not exist.
func (c *Cloud) checkReferences(vm *config.Vm, invalid func(attribute, format string, values ...any) error) error {
	cluster := slices.IndexFunc(c.clusters, func(known clusters.Cluster) bool { return *known.ExtId == *vm.Cluster.ExtId })
	if cluster <= 0 {
		return invalid("cluster", "there is no cluster")
	}
	for _, nic := range vm.Nics {
		if !slices.ContainsFunc(c.subnets, func(s networks.Subnet) bool {
			return *s.ExtId == *nic.NetworkInfo.Subnet.ExtId && (*s.ClusterReference == *vm.Cluster.ExtId || s.SubnetType != nil)
		}) {
			return invalid("$.nics[0].networkInfo.subnet", "there is no subnet")
		}
	}
	for _, gpu := range vm.Gpus {
		if ptr.Deref(gpu.DeviceId, 0) != GPU {
			return invalid("gpus", "there is no GPU")
		}
	}
	for _, category := range vm.Categories {
		if !slices.ContainsFunc(c.categories, func(known tasks.Category) bool { return *known.ExtId == ptr.Deref(category.ExtId, "") }) {
			return invalid("categories", "there is no category")
		}
	}
	if vm.Project != nil && ptr.Deref(vm.Project.ExtId, "") != Project {
		return invalid("project", "there is no project")
	}
	return nil
}

// checkDisks checks that no two disks have one place, and the bootstrap data.
func (c *Cloud) checkDisks(vm *config.Vm) error {
	places := map[string]bool{}
	for _, disk := range vm.Disks {
		place := fmt.Sprint(disk.DiskAddress.BusType.GetName(), *disk.DiskAddress.Index)
		if places[place] {
			c.violate("%s: two disks at %s", createMethod, place)
		}
		places[place] = true
		backing, ok := disk.BackingInfo.GetValue().(config.VmDisk)
		if !ok || backing.DataSource == nil && backing.DiskSizeBytes == nil {
			c.violate("%s: a disk without a size", createMethod)
		}
	}
	if vm.GuestCustomization == nil {
		return nil
	}
	customization, _ := vm.GuestCustomization.Config.GetValue().(config.CloudInit)
	script, _ := customization.CloudInitScript.GetValue().(config.Userdata)
	for _, text := range []*string{script.Value, customization.Metadata} {
		if _, err := base64.StdEncoding.DecodeString(ptr.Deref(text, "")); err != nil || len(*text) > 128000 {
			c.violate("%s: the guest customization is no base64", createMethod)
		}
	}
	return nil
}

func (c *Cloud) updateVM(vm *virtualMachine, body []byte) (answer, error) {
	wanted := config.NewVm()
	if err := c.decode("PUT vms", body, wanted); err != nil {
		return answer{}, err
	}
	if ptr.Deref(wanted.ExtId, "") != *vm.ExtId || len(wanted.Disks) != len(vm.Disks) || len(wanted.Categories) != len(vm.Categories) {
		c.violate("PUT vms changes more than the description")
	}
	begun := c.begin("UpdateVm", *vm.ExtId, "", func(*task) {
		vm.Description = wanted.Description
		vm.version++
	})
	return accepted(begun.id), nil
}

func (c *Cloud) powerOn(vm *virtualMachine, fault Fault) answer {
	fails := fault.Start
	switch {
	case *vm.Cluster.ExtId == ClusterID(FullCluster):
		fails = "NO_HOST_RESOURCES"
	case *vm.PowerState != config.POWERSTATE_OFF:
		fails = "VM_INVALID_POWER_STATE"
	}
	return accepted(c.begin("PowerOnVm", *vm.ExtId, fails, func(t *task) {
		if t.fails == "" {
			vm.PowerState = config.POWERSTATE_ON.Ref()
			vm.version++
		}
	}).id)
}

func (c *Cloud) reset(vm *virtualMachine) (answer, error) {
	if *vm.PowerState != config.POWERSTATE_ON {
		return answer{}, refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_POWER_STATE", "the VM is not powered on")
	}
	c.resets++
	return accepted(c.begin("ResetVm", *vm.ExtId, "", func(*task) { vm.version++ }).id), nil
}

// deleteVM begins the deletion of a virtual machine and of all that is attached to it.
func (c *Cloud) deleteVM(id, fails string) answer {
	return accepted(c.begin("DeleteVm", id, fails, func(t *task) {
		if t.fails != "" {
			return
		}
		for group, attached := range c.groups {
			if attached == id {
				delete(c.groups, group)
			}
		}
		c.remove(id)
	}).id)
}

func (c *Cloud) detach(r *http.Request, group string, body []byte, fails string) (answer, error) {
	wanted := groups.NewVmAttachment()
	if err := c.decode("POST detach-vm", body, wanted); err != nil {
		return answer{}, err
	}
	vmID := ptr.Deref(wanted.ExtId, "")
	if r.Header.Get("If-Match") != "group" || c.groups[group] != vmID {
		return answer{}, refuse(http.StatusBadRequest, "VOL-40102", "VOLUME_GROUP_NOT_ATTACHED", "the volume group is not attached, or If-Match is missing")
	}
	return accepted(c.begin("DetachVolumeGroup", "", fails, func(t *task) {
		if t.fails != "" {
			return
		}
		if _, exists := c.groups[group]; exists {
			c.groups[group] = ""
		}
		if vm, ok := c.vms[vmID]; ok {
			vm.Disks = slices.DeleteFunc(vm.Disks, func(disk config.Disk) bool {
				reference, ok := disk.BackingInfo.GetValue().(config.ADSFVolumeGroupReference)
				return ok && *reference.VolumeGroupExtId == group
			})
			vm.version++
		}
	}).id), nil
}
