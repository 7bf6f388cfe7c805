// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *Environment) scale(replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		return w.change(ctx, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
	}
}

// roll points the MachineDeployment at the template of another size.
func (w *Environment) roll(size string) func(context.Context) error {
	return func(ctx context.Context) error {
		return w.change(ctx, func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.InfrastructureRef.Name = cluster + "-" + size
		})
	}
}

func (w *Environment) change(ctx context.Context, do func(*clusterv1.MachineDeployment)) error {
	md := &clusterv1.MachineDeployment{}
	if err := w.Stack.ManagementClient.Get(ctx, key(cluster+"-workers"), md); err != nil {
		return err
	}
	before := md.DeepCopy()
	do(md)
	return w.Stack.ManagementClient.Patch(ctx, md, client.MergeFrom(before))
}

func (w *Environment) deleteCluster(ctx context.Context) error {
	return w.Stack.ManagementClient.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster}})
}

// providerKinds are the kinds of which no object may be left.
func (w *Environment) providerKinds() []schema.GroupVersionKind {
	simulated := schema.GroupVersion{Group: "infrastructure.drover.io", Version: "v1alpha1"}
	inMemory := schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	kinds := []schema.GroupVersionKind{simulated.WithKind("SimMachine")}
	if w.Infrastructure == InMemory {
		kinds = []schema.GroupVersionKind{inMemory.WithKind("DevCluster"), inMemory.WithKind("DevMachine")}
	}
	if w.Bootstrap == Kubeadm {
		return append(kinds, schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig"})
	}
	return append(kinds, schema.GroupVersionKind{Group: "bootstrap.drover.io", Version: "v1alpha1", Kind: "BootstrapConfig"})
}
