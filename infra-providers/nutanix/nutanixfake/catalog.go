// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanixfake

import (
	"fmt"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/content"
	"k8s.io/utils/ptr"
)

// The contents of a new Prism Central.
const (
	// ClusterA, ClusterB and FullCluster are clusters (Prism Elements) with a subnet and a storage container of the same names;
	// the last has no room to start anything.
	ClusterA    = "pe-a"
	ClusterB    = "pe-b"
	FullCluster = "pe-full"
	// Subnet and Container are their subnet and their storage container.
	Subnet    = "vlan-10"
	Container = "default-container"
	// Overlay is a subnet of a VPC. It names one cluster, and serves all.
	Overlay = "overlay-1"
	// Image is an image, AmbiguousImage the name of two, ISOImage that of an ISO image.
	Image          = "ubuntu-24.04"
	AmbiguousImage = "rocky-9"
	ISOImage       = "installer"
	// Project is a project.
	Project = "00000000-0000-4000-8000-00000000cafe"
	// GPU is a device that the clusters have.
	GPU = 8757
	// User and Password log in, and so does APIKey.
	User     = "drover"
	Password = "secret"
	APIKey   = "key-of-a-service-account"
)

// CategoryKey is the key of a category that exists.
const CategoryKey = "Environment"

// CategoryValue is its value.
const CategoryValue = "Production"

// uuid returns the n-th ID of a kind.
func uuid(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

// The kinds of IDs.
const (
	clusterKind = iota + 1
	subnetKind
	containerKind
	imageKind
	categoryKind
	vmKind
	diskKind
	groupKind
	taskKind
)

// ClusterID returns the ID of a cluster.
func ClusterID(name string) string {
	for n, known := range clusterNames {
		if known == name {
			return uuid(clusterKind, n)
		}
	}
	return ""
}

// clusterNames are the clusters, with Prism Central itself first.
var clusterNames = []string{"Unnamed", ClusterA, ClusterB, FullCluster}

func (c *Cloud) fill() {
	for n, name := range clusterNames {
		cluster := clusters.NewCluster()
		cluster.ExtId, cluster.Name = ptr.To(uuid(clusterKind, n)), &name
		cluster.Config = clusters.NewClusterConfigReference()
		cluster.Config.ClusterArch = clusters.CLUSTERARCHREFERENCE_X86_64.Ref()
		cluster.Config.ClusterFunction = []clusters.ClusterFunctionRef{clusters.CLUSTERFUNCTIONREF_AOS}
		if n == 0 {
			cluster.Config.ClusterFunction = []clusters.ClusterFunctionRef{clusters.CLUSTERFUNCTIONREF_PRISM_CENTRAL}
		}
		c.clusters = append(c.clusters, *cluster)
		if n == 0 {
			continue
		}
		subnet := networks.NewSubnet()
		subnet.ExtId, subnet.Name, subnet.ClusterReference = ptr.To(uuid(subnetKind, n)), ptr.To(Subnet), cluster.ExtId
		c.subnets = append(c.subnets, *subnet)
		container := clusters.NewStorageContainer()
		container.ContainerExtId, container.Name, container.ClusterExtId = ptr.To(uuid(containerKind, n)), ptr.To(Container), cluster.ExtId
		c.containers = append(c.containers, *container)
	}
	overlay := networks.NewSubnet()
	overlay.ExtId, overlay.Name, overlay.ClusterReference = ptr.To(uuid(subnetKind, len(clusterNames))), ptr.To(Overlay), ptr.To(uuid(clusterKind, 0))
	overlay.SubnetType = networks.SUBNETTYPE_OVERLAY.Ref()
	c.subnets = append(c.subnets, *overlay)
	for n, name := range []string{Image, AmbiguousImage, AmbiguousImage, ISOImage} {
		image := content.NewImage()
		image.ExtId, image.Name, image.SizeBytes = ptr.To(uuid(imageKind, n)), &name, ptr.To[int64](10<<30)
		image.Type = content.IMAGETYPE_DISK_IMAGE.Ref()
		if name == ISOImage {
			image.Type = content.IMAGETYPE_ISO_IMAGE.Ref()
		}
		c.images = append(c.images, *image)
	}
	c.addCategory(CategoryKey, CategoryValue)
}

// ImageID returns the ID of an image.
func ImageID(n int) string { return uuid(imageKind, n) }

// SubnetID returns the ID of the subnet of a cluster.
func SubnetID(cluster string) string {
	for n, known := range clusterNames {
		if known == cluster {
			return uuid(subnetKind, n)
		}
	}
	return ""
}
