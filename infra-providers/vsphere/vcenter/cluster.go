// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/runtime/httplimit"
)

// Cluster is a compute cluster with its DRS rules and groups. A host that is in none has neither.
type Cluster struct {
	Ref    types.ManagedObjectReference
	Config *types.ClusterConfigInfoEx
}

// ClusterOf returns the compute cluster that a resource pool is in.
func ClusterOf(ctx context.Context, client *vim25.Client, pool types.ManagedObjectReference) (Cluster, error) {
	var owner mo.ResourcePool
	collector := property.DefaultCollector(client)
	if err := collector.RetrieveOne(ctx, pool, []string{"owner"}, &owner); err != nil {
		return Cluster{}, err
	}
	if owner.Owner.Type != "ClusterComputeResource" {
		return Cluster{Ref: owner.Owner, Config: &types.ClusterConfigInfoEx{}}, nil
	}
	config, err := object.NewClusterComputeResource(client, owner.Owner).Configuration(ctx)
	return Cluster{Ref: owner.Owner, Config: config}, err
}

// Group returns a VM group, or nil.
func (c Cluster) Group(name string) *types.ClusterVmGroup {
	for _, group := range c.Config.Group {
		if known, ok := group.(*types.ClusterVmGroup); ok && known.Name == name {
			return known
		}
	}
	return nil
}

// Rule returns an anti-affinity rule, or nil.
func (c Cluster) Rule(name string) *types.ClusterAntiAffinityRuleSpec {
	for _, rule := range c.Config.Rule {
		if known, ok := rule.(*types.ClusterAntiAffinityRuleSpec); ok && known.Name == name {
			return known
		}
	}
	return nil
}

// Recommend returns the datastore that Storage DRS recommends of a clone.
func Recommend(ctx context.Context, client *vim25.Client, place Placement, name string, spec types.VirtualMachineCloneSpec) (*types.ManagedObjectReference, error) {
	template, folder := place.Template.Reference(), place.Folder.Reference()
	result, err := object.NewStorageResourceManager(client).RecommendDatastores(ctx, types.StoragePlacementSpec{
		Type:             string(types.StoragePlacementSpecPlacementTypeClone),
		Vm:               &template,
		Folder:           &folder,
		CloneName:        name,
		CloneSpec:        &spec,
		ResourcePool:     &place.Pool,
		Host:             place.Host,
		PodSelectionSpec: types.StorageDrsPodSelectionSpec{StoragePod: place.Pod},
	})
	if err != nil {
		return nil, err
	}
	for _, recommendation := range result.Recommendations {
		for _, action := range recommendation.Action {
			if placed, ok := action.(*types.StoragePlacementAction); ok {
				return &placed.Destination, nil
			}
		}
	}
	return nil, nil
}

// policies returns a client of the storage policies. The SDK's own constructor makes a call before anybody could bound
// it.
func (s *Session) policies(ctx context.Context, client *vim25.Client) (*pbm.Client, error) {
	bare := client.NewServiceClient(pbm.Path, pbm.Namespace)
	bare.Cookie = client.SessionCookie
	s.bound(bare, httplimit.XML)
	res, err := pbmmethods.PbmRetrieveServiceContent(ctx, bare, &pbmtypes.PbmRetrieveServiceContent{This: pbm.ServiceInstance})
	if err != nil {
		return nil, err
	}
	return &pbm.Client{Client: bare, ServiceContent: res.Returnval, RoundTripper: bare}, nil
}

// profiles returns the IDs of the storage policies by name.
func profiles(ctx context.Context, client *pbm.Client) (map[string]string, error) {
	ids, err := client.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)}, "")
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	all, err := client.RetrieveContent(ctx, ids)
	if err != nil {
		return nil, err
	}
	named := map[string]string{}
	for _, one := range all {
		named[one.GetPbmProfile().Name] = one.GetPbmProfile().ProfileId.UniqueId
	}
	return named, nil
}
