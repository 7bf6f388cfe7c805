// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/managementclaim"
)

// coreTimeout is how long machine-controller counts as running after it renewed its Lease.
const coreTimeout = 2 * time.Minute

// clusterStates returns which Clusters are another provider's, and in which nothing may be deleted: those that are paused,
// those whose API server does not answer, those that another management cluster acts on, all while machine-controller does
// not run, and those with a MachineDeployment or MachineSet that is frozen. More Machines than were requested may be
// the effect of a stale cache, and so may be an instance without an owner. Leases and freezes are read only for Clusters in
// which something has no owner.
func (c *Collector[M, C]) clusterStates(ctx context.Context, in Input, clusters map[driver.Owner]*clusterv1.Cluster) (map[driver.Owner]ClusterState, error) {
	clusterStates := map[driver.Owner]ClusterState{}
	for owner, cluster := range clusters {
		clusterStates[owner] = ClusterState{
			Foreign: !c.WatchFilter.Matches(cluster),
			Frozen:  isHeld(cluster),
		}
	}
	for _, thing := range in.Resources {
		if state, known := clusterStates[thing.Identity.Owner]; known && thing.Elsewhere && !in.isOwned(thing) {
			state.Frozen = true
			clusterStates[thing.Identity.Owner] = state
		}
	}
	checked := map[driver.Owner]bool{}
	for _, thing := range in.Resources {
		owner := thing.Identity.Owner
		state, known := clusterStates[owner]
		if !known || state.Foreign || state.Frozen || checked[owner] || in.isOwned(thing) {
			continue
		}
		checked[owner] = true
		var err error
		if state.Frozen, err = c.frozenNow(ctx, clusters[owner]); err != nil {
			return nil, err
		}
		clusterStates[owner] = state
	}
	return clusterStates, nil
}

// frozenNow reads whether nothing may be deleted in one Cluster.
func (c *Collector[M, C]) frozenNow(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if stopped, err := c.stopped(ctx); stopped || err != nil {
		return stopped, err
	}
	return c.frozenOwner(ctx, cluster)
}

// stopped reports whether machine-controller is known not to run, so that the conditions that it wrote may be out of date.
// Where its Lease cannot be read, because it is elsewhere or another controller is used, the conditions alone count.
func (c *Collector[M, C]) stopped(ctx context.Context) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := c.Live.Get(ctx, c.Core, lease)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Lease %q: %w", c.Core, err)
	}
	if lease.Spec.RenewTime != nil && c.Clock.Now().Sub(lease.Spec.RenewTime.Time) < coreTimeout {
		return false, nil
	}
	ctrl.LoggerFrom(ctx).V(1).Info("deleting no orphans: machine-controller does not run", "Lease", klog.KRef(c.Core.Namespace, c.Core.Name))
	return true, nil
}

// frozenOwner reports whether a MachineDeployment or MachineSet of a Cluster is frozen, read without a cache.
func (c *Collector[M, C]) frozenOwner(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	for _, kind := range []string{"MachineDeploymentList", "MachineSetList"} {
		owners := &metav1.PartialObjectMetadataList{}
		owners.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))
		inCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
		if err := c.Live.List(ctx, owners, client.InNamespace(cluster.Namespace), inCluster); err != nil {
			return false, fmt.Errorf("listing the MachineDeployments and MachineSets of cluster %q: %w", cluster.Name, err)
		}
		for _, owner := range owners.Items {
			if isFrozen(owner) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isFrozen reports whether a MachineDeployment or MachineSet is frozen: by its annotation, whose value freezes unless it is "false", and
// without one by the label that records an overshoot.
func isFrozen(owner metav1.PartialObjectMetadata) bool {
	setting := droverpolicyv1.FreezeSettingOf(owner.Annotations)
	_, labelled := owner.Labels[droverpolicyv1.FrozenLabel]
	return setting.Freezes() || labelled && setting != droverpolicyv1.FreezeOff
}

// isHeld reports whether a Cluster itself shows that nothing of it may be deleted.
func isHeld(cluster *clusterv1.Cluster) bool {
	return paused(cluster) || isUnreachable(cluster) || managementclaim.ClaimedElsewhere(cluster)
}

// isUnreachable reports whether a workload cluster that was initialized does not answer: nothing is deleted during an
// outage.
func isUnreachable(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) &&
		!meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
}

func paused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || ptr.Deref(cluster.Spec.Paused, false)
}
