// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/content"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
	"drover.io/infra-providers/nutanix/prism"
	"drover.io/runtime/expiring"
)

// cacheTTL is how long an answer is used, and maxAnswers how many are kept.
const (
	cacheTTL   = time.Minute
	maxAnswers = 1000
)

// API has the calls that look-ups make. Their errors are those of package prism.
type API interface {
	Image(ctx context.Context, id string) (*content.Image, error)
	ImagesByName(ctx context.Context, name string) ([]content.Image, error)
	Clusters(ctx context.Context) ([]clusters.Cluster, error)
	SubnetsByName(ctx context.Context, name string) ([]networks.Subnet, error)
	StorageContainersByName(ctx context.Context, name string) ([]clusters.StorageContainer, error)
	Category(ctx context.Context, key, value string) (*tasks.Category, error)
	HasProjects(ctx context.Context) (bool, error)
}

// Lookup finds what a spec names. It caches answers for a minute.
type Lookup struct {
	api     API
	answers expiring.Map[string, any]
}

// NewLookup returns a look-up with an empty cache.
func NewLookup(api API, clock clock.PassiveClock) *Lookup {
	l := &Lookup{api: api}
	l.answers.Clock, l.answers.TTL, l.answers.Max = clock, cacheTTL, maxAnswers
	return l
}

// uuidPattern is what the ID of an entity is. Everything else is a name.
var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`)

// IsUUID reports whether a text is the ID of an entity.
func IsUUID(text string) bool { return uuidPattern.MatchString(text) }

// Image returns the image of a spec. A name must be that of one image.
func (l *Lookup) Image(ctx context.Context, want infrav1.NutanixImage) (*content.Image, error) {
	found, err := lookup.Cached(&l.answers, "image", want, func() (*content.Image, error) { return l.image(ctx, want) })
	if err != nil {
		return nil, err
	}
	if ptr.Deref(found.Type, content.IMAGETYPE_UNKNOWN) == content.IMAGETYPE_ISO_IMAGE {
		return nil, driver.InvalidField("spec.image", "it is an ISO image, and a disk image is needed")
	}
	return found, nil
}

func (l *Lookup) image(ctx context.Context, want infrav1.NutanixImage) (*content.Image, error) {
	if want.UUID != "" {
		found, err := l.api.Image(ctx, want.UUID)
		if prism.IsNotFound(err) {
			return nil, driver.InvalidField("spec.image.uuid", "there is no image %q", want.UUID)
		}
		return found, err
	}
	found, err := l.api.ImagesByName(ctx, want.Name)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(i content.Image) bool { return ptr.Deref(i.Name, "") != want.Name })
	switch len(found) {
	case 0:
		return nil, driver.InvalidField("spec.image.name", "there is no image %q", want.Name)
	case 1:
		return &found[0], nil
	default:
		return nil, driver.InvalidField("spec.image.name", "%d images have the name %q: name one by its UUID", len(found), want.Name)
	}
}

// Cluster is a cluster (Prism Element).
type Cluster struct {
	ID, Name string
	// Architecture is the name that Kubernetes has for that of its hosts, empty for another one.
	Architecture string
	// PrismCentral is true for the cluster that is Prism Central itself.
	PrismCentral bool
}

// Clusters returns all clusters.
func (l *Lookup) Clusters(ctx context.Context) ([]Cluster, error) {
	return lookup.Cached(&l.answers, "clusters", nil, func() ([]Cluster, error) {
		found, err := l.api.Clusters(ctx)
		if err != nil {
			return nil, err
		}
		all := make([]Cluster, 0, len(found))
		for _, cluster := range found {
			all = append(all, toCluster(cluster))
		}
		return all, nil
	})
}

func toCluster(found clusters.Cluster) Cluster {
	cluster := Cluster{ID: ptr.Deref(found.ExtId, ""), Name: ptr.Deref(found.Name, "")}
	if found.Config == nil {
		return cluster
	}
	cluster.PrismCentral = slices.Contains(found.Config.ClusterFunction, clusters.CLUSTERFUNCTIONREF_PRISM_CENTRAL)
	switch ptr.Deref(found.Config.ClusterArch, clusters.CLUSTERARCHREFERENCE_UNKNOWN) {
	case clusters.CLUSTERARCHREFERENCE_X86_64:
		cluster.Architecture = "amd64"
	case clusters.CLUSTERARCHREFERENCE_PPC64LE:
		cluster.Architecture = "ppc64le"
	}
	return cluster
}

// Cluster returns the cluster of a name or an ID.
func (l *Lookup) Cluster(ctx context.Context, nameOrID string) (Cluster, error) {
	all, err := l.Clusters(ctx)
	if err != nil {
		return Cluster{}, err
	}
	var found []Cluster
	for _, cluster := range all {
		if !cluster.PrismCentral && (cluster.Name == nameOrID || strings.EqualFold(cluster.ID, nameOrID)) {
			found = append(found, cluster)
		}
	}
	switch len(found) {
	case 0:
		return Cluster{}, driver.InvalidField("spec.cluster", "Prism Central has no cluster %q", nameOrID)
	case 1:
		return found[0], nil
	default:
		return Cluster{}, driver.InvalidField("spec.cluster", "%d clusters have the name %q: name one by its UUID", len(found), nameOrID)
	}
}

// subnet returns the ID of a subnet. A name must be that of one subnet that the cluster has; one of a VPC belongs to no cluster.
func (l *Lookup) subnet(ctx context.Context, cluster, nameOrID, field string) (string, error) {
	if IsUUID(nameOrID) {
		return nameOrID, nil
	}
	all, err := lookup.Cached(&l.answers, "subnet", nameOrID, func() ([]networks.Subnet, error) { return l.api.SubnetsByName(ctx, nameOrID) })
	if err != nil {
		return "", err
	}
	return only(all, "subnets", nameOrID, field, func(s networks.Subnet) (string, bool) {
		ofCluster := ptr.Deref(s.ClusterReference, "") == cluster || slices.Contains(s.ClusterReferenceList, cluster) ||
			s.ClusterReference == nil && len(s.ClusterReferenceList) == 0 && s.VpcReference != nil
		return ptr.Deref(s.ExtId, ""), ofCluster && ptr.Deref(s.Name, "") == nameOrID
	})
}

// storageContainer returns the ID of a storage container, empty for the default.
func (l *Lookup) storageContainer(ctx context.Context, cluster, nameOrID, field string) (string, error) {
	if nameOrID == "" || IsUUID(nameOrID) {
		return nameOrID, nil
	}
	all, err := lookup.Cached(&l.answers, "storage container", nameOrID, func() ([]clusters.StorageContainer, error) {
		return l.api.StorageContainersByName(ctx, nameOrID)
	})
	if err != nil {
		return "", err
	}
	return only(all, "storage containers", nameOrID, field, func(s clusters.StorageContainer) (string, bool) {
		return ptr.Deref(s.ContainerExtId, ""), ptr.Deref(s.ClusterExtId, "") == cluster && ptr.Deref(s.Name, "") == nameOrID
	})
}

// only returns the ID of the one entity that matches.
func only[T any](all []T, kind, name, field string, match func(T) (id string, ok bool)) (string, error) {
	var ids []string
	for _, each := range all {
		if id, ok := match(each); ok {
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) == 0:
		return "", driver.InvalidField(field, "the cluster has no %q among its %s", name, kind)
	case len(ids) > 1:
		return "", driver.InvalidField(field, "%d %s of the cluster have the name %q: name one by its UUID", len(ids), kind, name)
	case ids[0] == "":
		return "", errors.New("Prism Central lists " + kind + " without IDs")
	}
	return ids[0], nil
}

// category returns the ID of a category that a spec names.
func (l *Lookup) category(ctx context.Context, want infrav1.NutanixCategory, field string) (string, error) {
	found, err := lookup.Cached(&l.answers, "category", want, func() (*tasks.Category, error) { return l.api.Category(ctx, want.Key, want.Value) })
	if err != nil {
		return "", err
	}
	if found == nil || found.ExtId == nil {
		return "", driver.InvalidField(field, "there is no category %q with the value %q: create it first", want.Key, want.Value)
	}
	return *found.ExtId, nil
}

// References are the IDs of what a spec names.
type References struct {
	Cluster Cluster
	Image   *content.Image
	// Subnets are those of the network interfaces, Containers those of the system disk and the data disks; an empty one is the
	// default of the cluster.
	Subnets, Containers, Categories []string
}

// References finds all that a spec names. The spec's cluster is the one of the virtual machine.
func (l *Lookup) References(ctx context.Context, spec infrav1.NutanixMachineSpec) (found References, err error) {
	if found.Cluster, err = l.Cluster(ctx, spec.Cluster); err != nil {
		return found, err
	}
	if found.Image, err = l.Image(ctx, spec.Image); err != nil {
		return found, err
	}
	for n, nic := range spec.NetworkInterfaces {
		id, err := l.subnet(ctx, found.Cluster.ID, nic.Subnet, fmt.Sprintf("spec.networkInterfaces[%d].subnet", n))
		if err != nil {
			return found, err
		}
		found.Subnets = append(found.Subnets, id)
	}
	for n, disk := range disksOf(spec) {
		field := "spec.systemDisk.storageContainer"
		if n > 0 {
			field = fmt.Sprintf("spec.dataDisks[%d].storageContainer", n-1)
		}
		id, err := l.storageContainer(ctx, found.Cluster.ID, disk.StorageContainer, field)
		if err != nil {
			return found, err
		}
		found.Containers = append(found.Containers, id)
	}
	for n, category := range spec.Categories {
		id, err := l.category(ctx, category, fmt.Sprintf("spec.categories[%d]", n))
		if err != nil {
			return found, err
		}
		found.Categories = append(found.Categories, id)
	}
	return found, l.checkProject(ctx, spec)
}

func (l *Lookup) checkProject(ctx context.Context, spec infrav1.NutanixMachineSpec) error {
	if spec.ProjectID == "" {
		return nil
	}
	able, err := l.api.HasProjects(ctx)
	if err == nil && !able {
		return driver.InvalidField("spec.projectID", "this Prism Central has version 4.0 of the API, and projects need version 4.1")
	}
	return err
}

// disksOf returns the settings of the disks of a spec, the system disk first.
func disksOf(spec infrav1.NutanixMachineSpec) []infrav1.NutanixDiskSettings {
	all := []infrav1.NutanixDiskSettings{spec.SystemDisk}
	for _, disk := range spec.DataDisks {
		all = append(all, disk.NutanixDiskSettings)
	}
	return all
}
