// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machineowner is what the controllers of MachineSets and MachineDeployments, the owners of Machines, do alike:
// reading the Cluster, the metadata and the freeze of the owner, its conditions about Machines, and writing its status.
package machineowner

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Object is a MachineSet or a MachineDeployment.
type Object interface {
	client.Object
	conditions.Setter
}

// Observe reads the Cluster of an object in the namespace, and adds it to the context's logger. A Cluster that does not
// exist has no UID.
func Observe(ctx context.Context, c client.Reader, namespace, name string) (context.Context, *clusterv1.Cluster, error) {
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(namespace, name)))
	cluster := &clusterv1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster); client.IgnoreNotFound(err) != nil {
		return ctx, nil, fmt.Errorf("reading Cluster %q: %w", name, err)
	}
	return ctx, cluster, nil
}

// SetMetadata adds the finalizer and the label of the Cluster.
func SetMetadata(object Object, finalizer, clusterName string) {
	controllerutil.AddFinalizer(object, finalizer)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = clusterName
	object.SetLabels(labels)
}

// SetClusterOwner adds the owner reference to the Cluster.
func SetClusterOwner(object Object, cluster *clusterv1.Cluster) {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == cluster.UID {
			return
		}
	}
	object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}))
}

// IsControlledBy reports whether the object's controller has the UID.
func IsControlledBy(object metav1.Object, uid types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.UID == uid
}
