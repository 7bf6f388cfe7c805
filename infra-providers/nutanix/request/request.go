// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package request turns the spec of a NutanixMachine into one request for a virtual machine. It looks up what the spec names and
// caches the answers for a minute, so that a burst of machines of one template costs one look-up.
//
// It owns the request and nothing after it: idempotency tokens, tasks and error kinds are those of the nutanix driver, which
// calls it.
package request

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// MaxUserData is the maximum size of user data, in bytes after the base64 encoding.
const MaxUserData = 128000

// Input describes one virtual machine.
type Input struct {
	Spec       infrav1.NutanixMachineSpec
	Identity   driver.Identity
	References References
	// OwnerCategory is the ID of the category of the machine's Cluster.
	OwnerCategory string
	UserData      []byte
}

// VM returns the request for an input. It fails with InvalidConfigurationError only.
func VM(input Input) (*config.Vm, error) {
	spec := input.Spec
	customization, err := customize(input)
	if err != nil {
		return nil, err
	}
	vm := config.NewVm()
	vm.Name, vm.Description = &input.Identity.Name, ptr.To(Describe(input.Identity))
	vm.NumSockets, vm.NumCoresPerSocket = ptr.To(int(spec.VCPUSockets)), ptr.To(int(ptr.Deref(spec.VCPUsPerSocket, 1)))
	vm.MemorySizeBytes = ptr.To(spec.MemoryMiB << 20)
	vm.IsCpuPassthroughEnabled = spec.CPUPassthrough
	vm.Cluster = config.NewClusterReference()
	vm.Cluster.ExtId = &input.References.Cluster.ID
	for _, id := range append([]string{input.OwnerCategory}, input.References.Categories...) {
		reference := config.NewCategoryReference()
		reference.ExtId = &id
		vm.Categories = append(vm.Categories, *reference)
	}
	if spec.ProjectID != "" {
		vm.Project = config.NewProjectReference()
		vm.Project.ExtId = &spec.ProjectID
	}
	if spec.HardwareClockTimezone != "" {
		vm.HardwareClockTimezone = &spec.HardwareClockTimezone
	}
	vm.GuestCustomization = customization
	vm.Disks, vm.Nics, vm.Gpus = disks(input), nics(input), gpus(spec)
	return vm, boot(vm, spec)
}

// boot sets how the virtual machine boots. Secure boot needs the machine type Q35.
func boot(vm *config.Vm, spec infrav1.NutanixMachineSpec) error {
	if ptr.Deref(spec.VTPM, false) {
		vm.VtpmConfig = config.NewVtpmConfig()
		vm.VtpmConfig.IsVtpmEnabled = ptr.To(true)
	}
	switch spec.BootType {
	case "UEFI":
		return vm.SetBootConfig(*config.NewUefiBoot())
	case "SecureBoot":
		vm.MachineType = config.MACHINETYPE_Q35.Ref()
		uefi := config.NewUefiBoot()
		uefi.IsSecureBootEnabled = ptr.To(true)
		return vm.SetBootConfig(*uefi)
	default:
		return vm.SetBootConfig(*config.NewLegacyBoot())
	}
}

// buses are the names of the API.
var buses = map[string]config.DiskBusType{
	"": config.DISKBUSTYPE_SCSI, "SCSI": config.DISKBUSTYPE_SCSI, "SATA": config.DISKBUSTYPE_SATA, "PCI": config.DISKBUSTYPE_PCI, "IDE": config.DISKBUSTYPE_IDE,
}

// disks returns the system disk, which is made from the image, and the data disks. The places on a bus are numbered from zero.
func disks(input Input) (all []config.Disk) {
	used := map[config.DiskBusType]int{}
	for n, from := range disksOf(input.Spec) {
		backing := config.NewVmDisk()
		if from.SizeGiB != nil {
			backing.DiskSizeBytes = ptr.To(*from.SizeGiB << 30)
		}
		if container := input.References.Containers[n]; container != "" {
			backing.StorageContainer = config.NewVmDiskContainerReference()
			backing.StorageContainer.ExtId = &container
		}
		if from.FlashMode != nil {
			backing.StorageConfig = config.NewVmDiskStorageConfig()
			backing.StorageConfig.IsFlashModeEnabled = from.FlashMode
		}
		if n == 0 {
			image := config.NewImageReference()
			image.ImageExtId = &input.References.Image.ID
			backing.DataSource = config.NewDataSource()
			must(backing.DataSource.SetReference(*image))
			backing.DataSource.ReferenceItemDiscriminator_ = nil // other clients of Prism Central leave it out, too
		}
		disk := config.NewDisk()
		must(disk.SetBackingInfo(*backing))
		bus := buses[from.Bus]
		disk.DiskAddress = config.NewDiskAddress()
		disk.DiskAddress.BusType, disk.DiskAddress.Index = &bus, ptr.To(used[bus])
		used[bus]++
		all = append(all, *disk)
	}
	return all
}

// must panics on an error that the types of the API exclude.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func nics(input Input) (all []config.Nic) {
	for n, from := range input.Spec.NetworkInterfaces {
		network := config.NewNicNetworkInfo()
		network.NicType = config.NICTYPE_NORMAL_NIC.Ref()
		network.Subnet = config.NewSubnetReference()
		network.Subnet.ExtId = &input.References.Subnets[n]
		nic := config.NewNic()
		nic.NetworkInfo = network
		if from.Queues != nil {
			nic.BackingInfo = config.NewEmulatedNic()
			nic.BackingInfo.NumQueues = ptr.To(int(*from.Queues))
		}
		all = append(all, *nic)
	}
	return all
}

// The names of the API.
var (
	modes = map[string]config.GpuMode{
		"PassthroughGraphics": config.GPUMODE_PASSTHROUGH_GRAPHICS, "PassthroughCompute": config.GPUMODE_PASSTHROUGH_COMPUTE, "Virtual": config.GPUMODE_VIRTUAL,
	}
	vendors = map[string]config.GpuVendor{"NVIDIA": config.GPUVENDOR_NVIDIA, "Intel": config.GPUVENDOR_INTEL, "AMD": config.GPUVENDOR_AMD}
)

func gpus(spec infrav1.NutanixMachineSpec) (all []config.Gpu) {
	for _, from := range spec.GPUs {
		gpu := config.NewGpu()
		gpu.Mode, gpu.Vendor, gpu.DeviceId = modes[from.Mode].Ref(), vendors[from.Vendor].Ref(), ptr.To(int(from.DeviceID))
		all = append(all, *gpu)
	}
	return all
}

// customize returns the bootstrap data, which the cluster writes to a configuration drive. cloud-init reads it there, and so does
// Ignition.
func customize(input Input) (*config.GuestCustomizationParams, error) {
	if len(input.UserData) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	encoded := base64.StdEncoding.EncodeToString(input.UserData)
	if len(encoded) > MaxUserData {
		return nil, driver.NeverValid("bootstrap data", "%d bytes (%d after the encoding) are more than the %d that Prism Central accepts: move files to an image or to a download",
			len(input.UserData), len(encoded), MaxUserData)
	}
	script := config.NewUserdata()
	script.Value = &encoded
	cloudInit := config.NewCloudInit()
	cloudInit.DatasourceType = config.CLOUDINITDATASOURCETYPE_CONFIG_DRIVE_V2.Ref()
	cloudInit.Metadata = ptr.To(metadata(input.Identity))
	must(cloudInit.SetCloudInitScript(*script))
	cloudInit.CloudInitScriptItemDiscriminator_ = nil // as above
	params := config.NewGuestCustomizationParams()
	must(params.SetConfig(*cloudInit))
	return params, nil
}

// metadata is what the guest is told about itself: the name of its host, and an ID that another machine does not have.
func metadata(id driver.Identity) string {
	text, err := json.Marshal(map[string]string{"hostname": id.Name, "uuid": uuid.NewSHA1(uuid.NameSpaceOID, []byte(id.UID)).String()})
	must(err)
	return base64.StdEncoding.EncodeToString(text)
}

// Describe returns the description of the virtual machine of an identity, which has its tags.
func Describe(id driver.Identity) string {
	text, err := json.Marshal(id.Tags())
	must(err)
	return string(text)
}

// Identity returns the identity in a description. A virtual machine of another name is a copy, or was renamed: nothing is taken
// for its identity.
func Identity(name, description string) driver.Identity {
	var tags map[string]string
	if json.Unmarshal([]byte(description), &tags) != nil {
		return driver.Identity{}
	}
	id, _ := driver.FromTags(tags)
	if id.Name != "" && id.Name != name {
		return driver.Identity{}
	}
	return id
}

// Offering names the size of a spec.
func Offering(spec infrav1.NutanixMachineSpec) string {
	name := fmt.Sprintf("%d vCPUs with %d MiB", int64(spec.VCPUSockets)*int64(ptr.Deref(spec.VCPUsPerSocket, 1)), spec.MemoryMiB)
	for _, gpu := range spec.GPUs {
		name += fmt.Sprintf(" and %s %d", gpu.Vendor, gpu.DeviceID)
	}
	return name
}
