// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// frozen tells which of the Clusters known nothing may be collected in: those that are paused, those whose
// API server is known to be silent, and those with a fleet that is frozen. More Machines than anybody asked for may be the work of a cache that is
// wrong, and then so may be the belief that nobody owns an instance. Only Clusters in which something has
// no owner are looked at closely, so nothing is read while all is well.
func (c *Collector[M, C]) frozen(ctx context.Context, in Input, clusters map[types.UID]*clusterv1.Cluster) (map[types.UID]bool, error) {
	frozen := map[types.UID]bool{}
	for uid, cluster := range clusters {
		frozen[uid] = paused(cluster) || silent(cluster)
	}
	looked := map[types.UID]bool{}
	for _, thing := range in.Found {
		uid := thing.Identity.Owner.UID
		cluster := clusters[uid]
		if cluster == nil || frozen[uid] || looked[uid] || in.wants(thing) {
			continue
		}
		looked[uid] = true
		var err error
		if frozen[uid], err = c.frozenFleet(ctx, cluster); err != nil {
			return nil, err
		}
	}
	return frozen, nil
}

// frozenFleet reports whether a MachineDeployment or MachineSet of a Cluster is frozen, read without a cache.
func (c *Collector[M, C]) frozenFleet(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	for _, kind := range []string{"MachineDeploymentList", "MachineSetList"} {
		fleets := &metav1.PartialObjectMetadataList{}
		fleets.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))
		inCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
		if err := c.Live.List(ctx, fleets, client.InNamespace(cluster.Namespace), inCluster); err != nil {
			return false, fmt.Errorf("listing the fleets of cluster %q: %w", cluster.Name, err)
		}
		for _, fleet := range fleets.Items {
			if isFrozen(fleet) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isFrozen reports whether a fleet is frozen: by the operator's word, and without one by the label that
// records an overshoot.
func isFrozen(fleet metav1.PartialObjectMetadata) bool {
	switch fleet.Annotations[policyv1.FreezeAnnotation] {
	case "true":
		return true
	case "false":
		return false
	default:
		_, labelled := fleet.Labels[policyv1.FrozenLabel]
		return labelled
	}
}

// silent reports whether a workload cluster that worked once does not answer: nothing is to be destroyed
// in an outage.
func silent(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) &&
		meta.IsStatusConditionFalse(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
}

func paused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || ptr.Deref(cluster.Spec.Paused, false)
}
