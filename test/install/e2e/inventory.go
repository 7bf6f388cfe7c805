// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
)

// inventory are the names of all objects of a cluster, and of every finalizer on them.
type inventory map[string]bool

// transient are kinds that clusters and kubelets make, and that clusters remove at any time.
var transient = []string{"events", "endpoints", "endpointslices", "componentstatuses", "certificatesigningrequests"}

// inventory lists every object of every kind of the management cluster.
func (s *environment) inventory(ctx context.Context) (inventory, error) {
	return inventoryOf(ctx, s.stack.Management, s.client)
}

// inventoryOf lists every object of every kind of a cluster.
func inventoryOf(ctx context.Context, cluster *controlplane.ControlPlane, c client.Client) (inventory, error) {
	lookup, err := discovery.NewDiscoveryClientForConfig(cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	lists, err := lookup.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("listing the kinds: %w", err)
	}
	found := inventory{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || slices.Contains(transient, kind.Name) {
				continue
			}
			if err := found.addAll(ctx, c, version.WithKind(kind.Kind)); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// addAll adds the objects of a kind.
func (i inventory) addAll(ctx context.Context, c client.Client, kind schema.GroupVersionKind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	for _, object := range list.Items {
		if object.GetNamespace() == corev1.NamespaceNodeLease {
			continue // the kubelet's
		}
		name := strings.TrimPrefix(fmt.Sprintf("%s %s/%s", kind.GroupKind(), object.GetNamespace(), object.GetName()), "/")
		i[name] = true
		for _, finalizer := range object.GetFinalizers() {
			i[name+" finalizer "+finalizer] = true
		}
	}
	return nil
}

// addedSince are the objects that another inventory does not have.
func (i inventory) addedSince(other inventory) []string {
	var added []string
	for name := range i {
		if !other[name] {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	return added
}

// awaitPristine waits until neither cluster has an object or a finalizer that it did not have before the first installation.
func (s *environment) awaitPristine(ctx context.Context) error {
	return s.await(ctx, "nothing of Drover is left", func(ctx context.Context) error {
		now, err := s.inventory(ctx)
		if err != nil {
			return err
		}
		workload, err := inventoryOf(ctx, s.stack.Workload, s.stack.WorkloadClient)
		if err != nil {
			return err
		}
		if left := append(now.addedSince(s.pristine), workload.addedSince(s.pristineWorkload)...); len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}
