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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/driver"
)

// coreSilence is how long machine-controller may leave its Lease alone and count as running.
const coreSilence = 2 * time.Minute

// standings tells of the Clusters known whose they are and which nothing may be collected in: those that are paused,
// those whose API server is known to be silent, those that another management cluster acts on, all while
// machine-controller does not run, and those with a fleet that is frozen. More Machines than anybody asked for may be
// the work of a cache that is wrong, and then so may be the belief that nobody owns an instance. Only Clusters in which
// something has no owner are looked at closely, so nothing is read while all is well.
func (c *Collector[M, C]) standings(ctx context.Context, in Input, clusters map[driver.Owner]*clusterv1.Cluster) (map[driver.Owner]Standing, error) {
	standings := map[driver.Owner]Standing{}
	for owner, cluster := range clusters {
		standings[owner] = Standing{
			Foreign: !c.WatchFilter.Matches(cluster),
			Frozen:  paused(cluster) || silent(cluster) || claimedElsewhere(cluster),
		}
	}
	for _, thing := range in.Found {
		if standing, known := standings[thing.Identity.Owner]; known && thing.Elsewhere && !in.wants(thing) {
			standing.Frozen = true
			standings[thing.Identity.Owner] = standing
		}
	}
	looked := map[driver.Owner]bool{}
	for _, thing := range in.Found {
		owner := thing.Identity.Owner
		standing, known := standings[owner]
		if !known || standing.Foreign || standing.Frozen || looked[owner] || in.wants(thing) {
			continue
		}
		looked[owner] = true
		var err error
		if standing.Frozen, err = c.frozenNow(ctx, clusters[owner]); err != nil {
			return nil, err
		}
		standings[owner] = standing
	}
	return standings, nil
}

// frozenNow looks closely at one Cluster.
func (c *Collector[M, C]) frozenNow(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if stopped, err := c.stopped(ctx); stopped || err != nil {
		return stopped, err
	}
	return c.frozenOwner(ctx, cluster)
}

// stopped reports whether machine-controller is known not to run, so that what it wrote into conditions may no longer
// be so. Where its Lease is not to be seen, because it is elsewhere or another controller is used, conditions are all
// there is.
func (c *Collector[M, C]) stopped(ctx context.Context) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := c.Live.Get(ctx, c.Core, lease)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Lease %q: %w", c.Core, err)
	}
	if lease.Spec.RenewTime != nil && c.Clock.Now().Sub(lease.Spec.RenewTime.Time) < coreSilence {
		return false, nil
	}
	ctrl.LoggerFrom(ctx).V(1).Info("collecting nothing: machine-controller does not run", "lease", c.Core)
	return true, nil
}

// frozenFleet reports whether a MachineDeployment or MachineSet of a Cluster is frozen, read without a cache.
func (c *Collector[M, C]) frozenOwner(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
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

// isFrozen reports whether a fleet is frozen: by its annotation, whose value freezes unless it is "false", and
// without one by the label that records an overshoot.
func isFrozen(fleet metav1.PartialObjectMetadata) bool {
	order := policyv1.FreezeOrderOf(fleet.Annotations)
	_, labelled := fleet.Labels[policyv1.FrozenLabel]
	return order.Freezes() || labelled && order != policyv1.FreezeOff
}

// silent reports whether a workload cluster that worked once is not known to answer: nothing is to be destroyed
// in an outage.
func silent(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) &&
		!meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
}

// claimedElsewhere reports whether another management cluster acts on the workload cluster, or may do so: what it has
// made is unknown here.
func claimedElsewhere(cluster *clusterv1.Cluster) bool {
	claimed := meta.FindStatusCondition(cluster.Status.Conditions, policyv1.ManagementClaimedCondition)
	return claimed != nil && claimed.Status != metav1.ConditionTrue
}

func paused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || ptr.Deref(cluster.Spec.Paused, false)
}
