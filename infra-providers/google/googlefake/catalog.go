// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	compute "google.golang.org/api/compute/v1"
)

var machineTypes = map[string]*compute.MachineType{
	"n4-standard-2":  {GuestCpus: 2, MemoryMb: 8192, Architecture: "X86_64"},
	"n4-standard-4":  {GuestCpus: 4, MemoryMb: 16384, Architecture: "X86_64"},
	NoCapacity:       {GuestCpus: 80, MemoryMb: 655360, Architecture: "X86_64"},
	"c4a-standard-4": {GuestCpus: 4, MemoryMb: 16384, Architecture: "ARM64"},
	"g2-standard-4": {GuestCpus: 4, MemoryMb: 16384, Architecture: "X86_64", Accelerators: []*compute.MachineTypeAccelerators{
		{GuestAcceleratorType: "nvidia-l4", GuestAcceleratorCount: 1},
	}},
}

func hasZone(name string) bool { return name == ZoneA || name == ZoneB }

// image returns an image of the one project that has any.
func (c *Cloud) image(name string) *compute.Image {
	link := "https://www.googleapis.com/compute/v1/projects/" + ImageProject + "/global/images/" + name
	found := &compute.Image{Name: name, SelfLink: link, Family: Family, Status: "READY", Architecture: "X86_64", DiskSizeGb: 10, Id: 1}
	switch name {
	case Image, c.newest:
		return found
	case ObsoleteImage:
		found.Deprecated = &compute.DeprecationStatus{State: "OBSOLETE"}
		return found
	default:
		return nil
	}
}

// catalog answers the methods that are about no instance.
func (c *Cloud) catalog(method string, p map[string]string) (any, error) {
	switch method {
	case "projects.get":
		return &compute.Project{Name: Project, Id: 123456789012}, nil
	case "machineTypes.get":
		found := machineTypes[p["machineType"]]
		if found == nil || !hasZone(p["zone"]) {
			return nil, notFound(p["machineType"])
		}
		answer := *found
		answer.Name, answer.Zone, answer.Id = p["machineType"], p["zone"], 1
		return &answer, nil
	case "images.getFromFamily":
		if p["project"] != ImageProject || p["family"] != Family {
			return nil, notFound(p["family"])
		}
		return c.image(c.newest), nil
	default:
		found := c.image(p["image"])
		if p["project"] != ImageProject || found == nil {
			return nil, notFound(p["image"])
		}
		return found, nil
	}
}
