// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/runtime/metric"
	"drover.io/runtime/predicates"
)

// cloud is the label with the name of the cloud.
var cloud = metric.Named("cloud", "the provider")

// withoutReady stands for the reason of a machine without a Ready condition.
const withoutReady = "None"

// readyReasons are those of the Ready condition.
var readyReasons = metric.Fixed("reason", withoutReady,
	infrav1.WaitingForMachineReason, infrav1.WaitingForClusterReason, infrav1.WaitingForManagementClaimReason,
	infrav1.ClusterUnknownReason, infrav1.IdentityUnknownReason, infrav1.WaitingForBootstrapReason,
	infrav1.BootstrapDataInvalidReason, infrav1.InstancePendingReason, infrav1.InstanceRunningReason,
	infrav1.EvictionRequestedReason, infrav1.InstanceStoppedReason, infrav1.InstanceMissingReason,
	infrav1.InstanceNotOwnedReason, infrav1.InstanceTagsMissingReason, infrav1.AccountMismatchReason,
	infrav1.ProviderIDNotStoredReason, infrav1.InvalidConfigurationReason, infrav1.UnauthorizedReason,
	infrav1.QuotaExceededReason, infrav1.InsufficientCapacityReason, infrav1.RateLimitedReason,
	infrav1.CloudErrorReason, infrav1.DeletingReason)

var (
	machines = metric.NewCollected(metric.Options{
		Name: "drover_infra_machines", Help: "Infrastructure machines that exist, by the reason of their Ready condition.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud, readyReasons},
	})
	transitions = metric.NewCounter(metric.Options{
		Name: "drover_infra_condition_transitions_total", Help: "Conditions of infrastructure machines that got another status.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud, metric.Fixed("condition", clusterv1.ReadyCondition, clusterv1.PausedCondition, infrav1.HostJoinedCondition), metric.Statuses},
	})
	provisionSeconds = metric.NewHistogram(metric.Options{
		Name: "drover_infra_provision_duration_seconds", Help: "Seconds from the creation of an infrastructure machine until its instance ran for the first time.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud}, Buckets: []float64{1, 5, 15, 30, 60, 120, 180, 300, 600, 1200, 3600},
	})
	deletionSeconds = metric.NewHistogram(metric.Options{
		Name: "drover_infra_deletion_duration_seconds", Help: "Seconds from the request to delete an infrastructure machine until its instance was gone.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud}, Buckets: []float64{1, 5, 15, 30, 60, 120, 180, 300, 600, 1200, 3600},
	})
)

// measure records what changed between two versions of a machine that are stored.
func (r *Reconciler[M, C]) measure(before, after M) {
	for _, t := range metric.Transitions(before.GetStatus().Conditions, after.GetStatus().Conditions) {
		transitions.Inc(r.Cloud.Name, t.Condition, t.Status)
	}
	if !ptr.Deref(before.GetStatus().Initialization.Provisioned, false) && ptr.Deref(after.GetStatus().Initialization.Provisioned, false) {
		provisionSeconds.Observe(time.Since(after.GetCreationTimestamp().Time).Seconds(), r.Cloud.Name)
	}
	if machinestatus.IsRemoved(after) && !machinestatus.IsRemoved(before) {
		deletionSeconds.Observe(time.Since(after.GetDeletionTimestamp().Time).Seconds(), r.Cloud.Name)
	}
}

// scrapeTime is how long a scrape may wait for the cache.
const scrapeTime = 5 * time.Second

// MachineCounter counts the infrastructure machines in the cache at each scrape.
type MachineCounter[M driver.Machine, C any] struct {
	Cloud driver.Cloud[M, C]
	// Reader is the manager's cached client.
	Reader client.Reader
	// Leading is closed once this process leads.
	Leading <-chan struct{}
	// WatchFilter selects the objects of this manager.
	WatchFilter predicates.WatchFilter
}

// Describe implements prometheus.Collector.
func (c *MachineCounter[M, C]) Describe(to chan<- *prometheus.Desc) { machines.Describe(to) }

// Collect implements prometheus.Collector. A process that does not lead has no machines in its cache.
func (c *MachineCounter[M, C]) Collect(to chan<- prometheus.Metric) {
	select {
	case <-c.Leading:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list := c.Cloud.NewMachineList()
	if err := c.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	counts := map[string]int{}
	for _, reason := range readyReasons.Values {
		counts[reason] = 0 // an alert needs to see that it became none
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if machine, ok := item.(M); ok && c.WatchFilter.Matches(machine) {
			reason := withoutReady
			if ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition); ready != nil {
				reason = ready.Reason
			}
			if _, known := counts[reason]; !known {
				reason = metric.Other
			}
			counts[reason]++
		}
		return nil
	})
	for reason, n := range counts {
		machines.Send(to, float64(n), c.Cloud.Name, reason)
	}
}
