// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// API has the calls that look-ups make. Lists yield a failure last. Their errors are those of package prism.
type API interface {
	Image(ctx context.Context, id string) (*content.Image, error)
	ImagesByName(ctx context.Context, name string) iter.Seq2[*content.Image, error]
	Clusters(ctx context.Context) iter.Seq2[*clusters.Cluster, error]
	SubnetsByName(ctx context.Context, name string) iter.Seq2[*networks.Subnet, error]
	StorageContainersByName(ctx context.Context, name string) iter.Seq2[*clusters.StorageContainer, error]
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

// Image is an image.
type Image struct {
	ID string
	// Bytes is its size.
	Bytes int64
	iso   bool
}

// Image returns the image of a spec. A name must be that of one image.
func (l *Lookup) Image(ctx context.Context, want infrav1.NutanixImage) (Image, error) {
	found, err := lookup.Cached(&l.answers, "image", want, func() (Image, error) {
		found, err := l.image(ctx, want)
		if err != nil {
			return Image{}, err
		}
		id := ptr.Deref(found.ExtId, "")
		if !IsUUID(id) || want.UUID != "" && !strings.EqualFold(id, want.UUID) {
			return Image{}, errors.New("Prism Central answered with an image that has no ID, or another one") //nolint:staticcheck // it is a name
		}
		return Image{ID: id, Bytes: ptr.Deref(found.SizeBytes, 0), iso: ptr.Deref(found.Type, content.IMAGETYPE_UNKNOWN) == content.IMAGETYPE_ISO_IMAGE}, nil
	})
	if err != nil {
		return Image{}, err
	}
	if found.iso {
		return Image{}, driver.InvalidField("spec.image", "it is an ISO image, and a disk image is needed")
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
	var found *content.Image
	count := 0
	for image, err := range l.api.ImagesByName(ctx, want.Name) {
		if err != nil {
			return nil, err
		}
		if ptr.Deref(image.Name, "") == want.Name {
			found, count = image, count+1
		}
	}
	switch count {
	case 0:
		return nil, driver.InvalidField("spec.image.name", "there is no image %q", want.Name)
	case 1:
		return found, nil
	default:
		return nil, driver.InvalidField("spec.image.name", "%d images have the name %q: name one by its UUID", count, want.Name)
	}
}

// What is kept of an answer: tenants name the servers. Prism Central manages some hundred clusters, with names of some ten bytes.
const (
	maxEntries = 1000
	maxName    = 255
)

var errTooMany = fmt.Errorf("Prism Central answers with more than %d clusters, or places of one name", maxEntries) //nolint:staticcheck // it is a name

// Cluster is a cluster (Prism Element).
type Cluster struct {
	ID, Name string
	// Architecture is the name that Kubernetes has for that of its hosts, empty for another one.
	Architecture string
	// PrismCentral is true for the cluster that is Prism Central itself.
	PrismCentral bool
}

// Clusters returns all clusters that have an ID.
func (l *Lookup) Clusters(ctx context.Context) ([]Cluster, error) {
	return lookup.Cached(&l.answers, "clusters", nil, func() ([]Cluster, error) { return l.clusters(ctx) })
}

// ReadClusters returns all clusters that have an ID as they are now, and not what another caller has read.
func (l *Lookup) ReadClusters(ctx context.Context) ([]Cluster, error) {
	all, err := l.clusters(ctx)
	if err == nil {
		lookup.Store(&l.answers, "clusters", nil, all)
	}
	return all, err
}

func (l *Lookup) clusters(ctx context.Context) ([]Cluster, error) {
	var all []Cluster
	for cluster, err := range l.api.Clusters(ctx) {
		switch {
		case err != nil:
			return nil, err
		case !IsUUID(ptr.Deref(cluster.ExtId, "")):
			continue
		case len(all) >= maxEntries:
			return nil, errTooMany
		}
		all = append(all, toCluster(cluster))
	}
	return all, nil
}

func toCluster(found *clusters.Cluster) Cluster {
	cluster := Cluster{ID: ptr.Deref(found.ExtId, "")}
	if name := ptr.Deref(found.Name, ""); len(name) <= maxName {
		cluster.Name = name
	}
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

// place is a subnet or a storage container, which is all that is kept of it.
type place struct {
	id string
	// clusters are those that have it; everywhere is true for one that belongs to none.
	clusters   []string
	everywhere bool
}

// places are those of one name.
type places struct {
	all        []place
	references int
}

// add adds one with the clusters that have it, unless there are too many. Only IDs are kept.
func (p *places) add(found place) error {
	if !IsUUID(found.id) {
		found.id = ""
	}
	listed := found.clusters
	found.clusters = nil // the list that was sent would keep its length in memory
	for _, id := range listed {
		if IsUUID(id) {
			found.clusters = append(found.clusters, id)
		}
	}
	p.all, p.references = append(p.all, found), p.references+len(found.clusters)
	if len(p.all) > maxEntries || p.references > maxEntries {
		return errTooMany
	}
	return nil
}

// subnet returns the ID of a subnet. A name must be that of one subnet that the cluster has; one of a VPC belongs to no cluster,
// whichever one it names.
func (l *Lookup) subnet(ctx context.Context, cluster, nameOrID, field string) (string, error) {
	if IsUUID(nameOrID) {
		return nameOrID, nil
	}
	all, err := lookup.Cached(&l.answers, "subnet", nameOrID, func() ([]place, error) {
		var kept places
		for s, err := range l.api.SubnetsByName(ctx, nameOrID) {
			if err != nil {
				return nil, err
			}
			if ptr.Deref(s.Name, "") != nameOrID {
				continue
			}
			of := place{id: ptr.Deref(s.ExtId, ""), everywhere: ptr.Deref(s.SubnetType, networks.SUBNETTYPE_UNKNOWN) == networks.SUBNETTYPE_OVERLAY}
			if s.ClusterReference != nil {
				of.clusters = append(of.clusters, *s.ClusterReference)
			}
			of.clusters = append(of.clusters, s.ClusterReferenceList...)
			of.everywhere = of.everywhere || len(of.clusters) == 0 && s.VpcReference != nil
			if err := kept.add(of); err != nil {
				return nil, err
			}
		}
		return kept.all, nil
	})
	if err != nil {
		return "", err
	}
	return only(all, "subnets", cluster, nameOrID, field)
}

// storageContainer returns the ID of a storage container, empty for the default.
func (l *Lookup) storageContainer(ctx context.Context, cluster, nameOrID, field string) (string, error) {
	if nameOrID == "" || IsUUID(nameOrID) {
		return nameOrID, nil
	}
	all, err := lookup.Cached(&l.answers, "storage container", nameOrID, func() ([]place, error) {
		var kept places
		for s, err := range l.api.StorageContainersByName(ctx, nameOrID) {
			if err != nil {
				return nil, err
			}
			if ptr.Deref(s.Name, "") != nameOrID {
				continue
			}
			if err := kept.add(place{id: ptr.Deref(s.ContainerExtId, ""), clusters: []string{ptr.Deref(s.ClusterExtId, "")}}); err != nil {
				return nil, err
			}
		}
		return kept.all, nil
	})
	if err != nil {
		return "", err
	}
	return only(all, "storage containers", cluster, nameOrID, field)
}

// only returns the ID of the one place that a cluster has.
func only(all []place, kind, cluster, name, field string) (string, error) {
	var ids []string
	for _, each := range all {
		if each.everywhere || slices.Contains(each.clusters, cluster) {
			ids = append(ids, each.id)
		}
	}
	switch {
	case len(ids) == 0:
		return "", driver.InvalidField(field, "the cluster has no %q among its %s", name, kind)
	case len(ids) > 1:
		return "", driver.InvalidField(field, "%d %s of the cluster have the name %q: name one by its UUID", len(ids), kind, name)
	case !IsUUID(ids[0]):
		return "", errors.New("Prism Central lists " + kind + " without IDs")
	}
	return ids[0], nil
}

// category returns the ID of a category that a spec names. That there is none is not kept: it may be created next.
func (l *Lookup) category(ctx context.Context, want infrav1.NutanixCategory, field string) (string, error) {
	return lookup.Cached(&l.answers, "category", want, func() (string, error) {
		found, err := l.api.Category(ctx, want.Key, want.Value)
		switch {
		case err != nil:
			return "", err
		case found == nil || !IsUUID(ptr.Deref(found.ExtId, "")):
			return "", driver.InvalidField(field, "there is no category %q with the value %q: create it first", want.Key, want.Value)
		}
		return *found.ExtId, nil
	})
}

// References are the IDs of what a spec names.
type References struct {
	Cluster Cluster
	Image   Image
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
