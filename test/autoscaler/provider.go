// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package autoscaler plays the part of the Kubernetes cluster autoscaler: it reads and writes
// what the autoscaler's provider for Cluster API reads and writes, with the same kinds of
// clients (discovery, informers on unstructured objects, the polymorphic scale client) and
// draws the same conclusions. When to scale is the tests' decision; what an autoscaler would
// make of our objects then is this package's.
package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
)

const (
	group        = "cluster.x-k8s.io"
	byProviderID = "providerID"
)

// Provider is the autoscaler's view of a management and a workload cluster. It holds no
// object but what its informers hold.
type Provider struct {
	// Version is the version of Cluster API's group that the API server prefers.
	Version string
	// Resources are the resources and subresources that it serves in that version.
	Resources []string

	dynamic   dynamic.Interface
	discovery discovery.CachedDiscoveryInterface
	scales    scale.ScalesGetter
	watched   dynamicinformer.DynamicSharedInformerFactory
	nodes     cache.SharedIndexInformer
	machines  cache.SharedIndexInformer
	stop      <-chan struct{}
}

// Start discovers what is served and returns once every informer has synced. The informers
// run until ctx is over.
func Start(ctx context.Context, management, workload *rest.Config) (*Provider, error) {
	p := &Provider{stop: ctx.Done()}
	if err := p.connect(management); err != nil {
		return nil, err
	}
	if err := p.discover(); err != nil {
		return nil, err
	}
	p.machines = p.informer("machines").Informer()
	for _, each := range []string{"machinesets", "machinedeployments", "machinepools"} {
		if slices.Contains(p.Resources, each) || each == "machinesets" {
			p.informer(each).Informer()
		}
	}
	if err := p.machines.AddIndexers(cache.Indexers{byProviderID: machineID}); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(workload)
	if err != nil {
		return nil, err
	}
	nodes := informers.NewSharedInformerFactory(client, 0)
	p.nodes = nodes.Core().V1().Nodes().Informer()
	if err := p.nodes.AddIndexers(cache.Indexers{byProviderID: nodeID}); err != nil {
		return nil, err
	}
	nodes.Start(p.stop)
	p.watched.Start(p.stop)
	for resource, synced := range p.watched.WaitForCacheSync(p.stop) {
		if !synced {
			return nil, fmt.Errorf("the informer on %s did not sync", resource.Resource)
		}
	}
	if !cache.WaitForCacheSync(p.stop, p.nodes.HasSynced) {
		return nil, errors.New("the informer on nodes did not sync")
	}
	return p, nil
}

// connect makes the clients of the management cluster.
func (p *Provider) connect(management *rest.Config) error {
	found, err := discovery.NewDiscoveryClientForConfig(management)
	if err != nil {
		return err
	}
	p.discovery = memory.NewMemCacheClient(found)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(p.discovery)
	kinds := scale.NewDiscoveryScaleKindResolver(p.discovery)
	if p.scales, err = scale.NewForConfig(management, mapper, dynamic.LegacyAPIPathResolverFunc, kinds); err != nil {
		return err
	}
	if p.dynamic, err = dynamic.NewForConfig(management); err != nil {
		return err
	}
	p.watched = dynamicinformer.NewDynamicSharedInformerFactory(p.dynamic, 0)
	return nil
}

// discover finds the preferred version of the group and what is served in it.
func (p *Provider) discover() error {
	groups, err := p.discovery.ServerGroups()
	if err != nil {
		return err
	}
	for _, each := range groups.Groups {
		if each.Name == group {
			p.Version = each.PreferredVersion.Version
		}
	}
	list, err := p.discovery.ServerResourcesForGroupVersion(group + "/" + p.Version)
	if err != nil {
		return err
	}
	for _, resource := range list.APIResources {
		p.Resources = append(p.Resources, resource.Name)
	}
	return nil
}

func (p *Provider) resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: p.Version, Resource: name}
}

func (p *Provider) informer(resource string) informers.GenericInformer {
	return p.watched.ForResource(p.resource(resource))
}

// normalize is the part of a provider ID by which the autoscaler looks machines and Nodes up.
func normalize(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

func machineID(object any) ([]string, error) {
	machine, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	id, _, err := unstructured.NestedString(machine.Object, "spec", "providerID")
	if err != nil || id == "" {
		return nil, nil //nolint:nilerr // a machine without one is not in the index
	}
	return []string{normalize(id)}, nil
}

func nodeID(object any) ([]string, error) {
	if node, ok := object.(*corev1.Node); ok && node.Spec.ProviderID != "" {
		return []string{normalize(node.Spec.ProviderID)}, nil
	}
	return nil, nil
}
