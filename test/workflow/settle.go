// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// MachineChanges yields once for every change of a Machine, until ctx is over.
func (w *Workflow) MachineChanges(ctx context.Context) (<-chan struct{}, error) {
	config := rest.CopyConfig(w.Stack.Management.AdminConfig())
	watching, err := client.NewWithWatch(config, client.Options{Scheme: w.Stack.ManagementClient.Scheme()})
	if err != nil {
		return nil, err
	}
	stream, err := watching.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(w.Namespace))
	if err != nil {
		return nil, err
	}
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		defer stream.Stop()
		for range stream.ResultChan() {
			select {
			case changes <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, nil
}

// ResourceVersions are the resource versions of everything that our managers write: in the
// management cluster every object of the workflow, in the workload cluster Nodes' metadata and
// tokens are left out, as kubelets write Nodes too and tokens are gone by then.
func (w *Workflow) ResourceVersions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&bootstrapv1.BootstrapConfigList{}, &infrav1.SimMachineList{}, &infrav1.SimMachineTemplateList{}, &corev1.SecretList{},
	} {
		if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				versions[fmt.Sprintf("%T %s", item, object.GetName())] = object.GetResourceVersion()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// AwaitNoWrites waits until nothing is written between two heartbeats of every Node, and returns
// the resource versions at that point.
func (w *Workflow) AwaitNoWrites(ctx context.Context) (map[string]string, error) {
	before, err := w.ResourceVersions(ctx)
	for err == nil {
		if err = w.AwaitHeartbeats(ctx, 1); err != nil {
			break
		}
		var after map[string]string
		if after, err = w.ResourceVersions(ctx); err == nil && maps.Equal(before, after) {
			return after, nil
		}
		before = after
	}
	return nil, err
}

// AwaitHeartbeats waits until every Node has renewed its Lease n times.
func (w *Workflow) AwaitHeartbeats(ctx context.Context, n int) error {
	renewed, last := map[string]int{}, map[string]string{}
	return w.await(ctx, fmt.Sprintf("%d heartbeats of every Node", n), func(ctx context.Context) (string, error) {
		list := &coordinationv1.LeaseList{}
		if err := w.Stack.WorkloadClient.List(ctx, list, client.InNamespace(corev1.NamespaceNodeLease)); err != nil {
			return "", err
		}
		missing := ""
		for _, lease := range list.Items {
			if seen, ok := last[lease.Name]; ok && seen != lease.ResourceVersion {
				renewed[lease.Name]++
			}
			last[lease.Name] = lease.ResourceVersion
			if renewed[lease.Name] < n {
				missing = "waiting for " + lease.Name
			}
		}
		return missing, nil
	})
}
