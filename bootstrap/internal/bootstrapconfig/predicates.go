// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/runtime/predicates"
)

// ownersChanged passes updates that change owner references: the owner may be set after the creation.
func ownersChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
	}}
}

// machineChanged passes updates of the fields of a Machine that a reconcile reads: most changes are of others.
func machineChanged() predicate.Predicate {
	type view struct {
		node                 string
		provisioned, deleted bool
		infrastructureGone   bool
		config, clusterName  string
		version              string
	}
	return predicates.Changed(func(object client.Object) view {
		m := object.(*clusterv1.Machine)
		return view{
			node:               m.Status.NodeRef.Name,
			provisioned:        ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false),
			deleted:            !m.DeletionTimestamp.IsZero(),
			infrastructureGone: infrastructureGone(m),
			config:             m.Spec.Bootstrap.ConfigRef.Name,
			clusterName:        m.Spec.ClusterName,
			version:            m.Spec.Version,
		}
	})
}

// clusterChanged passes updates of the fields of a Cluster that a reconcile reads.
func clusterChanged() predicate.Predicate {
	type view struct {
		paused, provisioned bool
		endpoint            clusterv1.APIEndpoint
	}
	return predicates.Changed(func(object client.Object) view {
		c := object.(*clusterv1.Cluster)
		return view{
			paused:      ptr.Deref(c.Spec.Paused, false),
			provisioned: ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
			endpoint:    c.Spec.ControlPlaneEndpoint,
		}
	})
}
