// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// clear deletes the Clusters first, for they take everything with them, then what belongs to
// none, and waits until no machine of the scenario has left anything in either cluster.
func (r *Runner) clear(ctx context.Context) error {
	for _, kinds := range [][]client.Object{
		{&clusterv1.Cluster{}},
		{&clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.Machine{}},
		{&infrav1.SimMachine{}, &bootstrapv1.BootstrapConfig{}},
	} {
		var errs []error
		for _, kind := range kinds {
			errs = append(errs, r.Stack.ManagementClient.DeleteAllOf(ctx, kind, client.InNamespace(r.Namespace)))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if err := r.await(ctx, func(ctx context.Context) (string, error) { return r.left(ctx, kinds) }); err != nil {
			return fmt.Errorf("waiting for nothing to be left: %w", err)
		}
	}
	if err := r.await(ctx, r.leftNodes); err != nil {
		return fmt.Errorf("waiting for no Node to be left: %w", err)
	}
	return nil
}

// left names the objects of the kinds that are left.
func (r *Runner) left(ctx context.Context, kinds []client.Object) (string, error) {
	var left []string
	for _, kind := range kinds {
		gvk, err := r.Stack.ManagementClient.GroupVersionKindFor(kind)
		if err != nil {
			return "", err
		}
		made, err := r.Stack.ManagementClient.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return "", err
		}
		list, ok := made.(client.ObjectList)
		if !ok {
			return "", fmt.Errorf("%s has no list", gvk.Kind)
		}
		if err := r.Stack.ManagementClient.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return "", err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				left = append(left, gvk.Kind+" "+object.GetName())
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return strings.Join(left, ", "), nil
}

// leftNodes names the Nodes of either cluster whose Machines were in the scenario's namespace.
func (r *Runner) leftNodes(ctx context.Context) (string, error) {
	var left []string
	for _, c := range []client.Client{r.Stack.WorkloadClient, r.Stack.ManagementClient} {
		nodes := &corev1.NodeList{}
		if err := c.List(ctx, nodes); err != nil {
			return "", err
		}
		for _, node := range nodes.Items {
			if node.Annotations[clusterv1.ClusterNamespaceAnnotation] == r.Namespace {
				left = append(left, "Node "+node.Name)
			}
		}
	}
	return strings.Join(left, ", "), nil
}
