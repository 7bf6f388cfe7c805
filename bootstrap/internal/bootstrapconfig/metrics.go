// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/metric"
	"drover.io/runtime/predicates"
)

// withoutReady stands for the reason of a BootstrapConfig without a Ready condition.
const withoutReady = "None"

// waitingReasons are those of the conditions of a BootstrapConfig.
var waitingReasons = metric.Fixed("reason", withoutReady, bootstrapv1.DataSecretAvailableReason,
	bootstrapv1.WaitingForMachineReason, bootstrapv1.WaitingForClusterReason, bootstrapv1.KubeconfigInvalidReason, bootstrapv1.ClusterUnreachableReason,
	bootstrapv1.ClusterForbiddenReason, bootstrapv1.ClaimedElsewhereReason, bootstrapv1.InvalidSpecReason, bootstrapv1.WaitingForProfileReason,
	bootstrapv1.ReleaseUnavailableReason, bootstrapv1.NotMadeByKubeadmReason, bootstrapv1.DataSecretConflictReason, bootstrapv1.RequestRefusedReason,
	bootstrapv1.DataSecretLostReason)

var (
	configs = metric.NewCollected(metric.Options{
		Name: "drover_bootstrap_configs", Stability: metric.Alpha,
		Help:   "BootstrapConfigs that exist, by what they wait for: the reason of TokenReady while that is False, else that of Ready. DataSecretAvailable is waiting for nothing.",
		Labels: []metric.Label{waitingReasons},
	})
	transitions = metric.NewCounter(metric.Options{
		Name: "drover_bootstrap_condition_transitions_total", Help: "Conditions of BootstrapConfigs that got another status.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Fixed("condition", clusterv1.ReadyCondition, clusterv1.PausedCondition, bootstrapv1.TokenReadyCondition), metric.Statuses},
	})
	dataSeconds = metric.NewHistogram(metric.Options{
		Name: "drover_bootstrap_data_duration_seconds", Help: "Seconds from the creation of a BootstrapConfig until its bootstrap data existed.", Stability: metric.Alpha,
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 180, 600, 1800},
	})
)

// measure records what changed between two versions of a status that are stored.
func measure(config *bootstrapv1.BootstrapConfig, before *bootstrapv1.BootstrapConfigStatus, now time.Time) {
	for _, t := range metric.Transitions(before.Conditions, config.Status.Conditions) {
		transitions.Inc(t.Condition, t.Status)
	}
	if !created(before) && created(&config.Status) {
		dataSeconds.Observe(now.Sub(config.CreationTimestamp.Time).Seconds())
	}
}

func created(status *bootstrapv1.BootstrapConfigStatus) bool {
	return status.Initialization.DataSecretCreated != nil && *status.Initialization.DataSecretCreated
}

// scrapeTime is how long a scrape may wait for the cache.
const scrapeTime = 5 * time.Second

// Counter counts the BootstrapConfigs in the cache at each scrape.
type Counter struct {
	// Reader is the manager's cached client.
	Reader client.Reader
	// Leading is closed once this process leads.
	Leading <-chan struct{}
	// Watch selects the objects of this manager.
	Watch predicates.WatchFilter
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(to chan<- *prometheus.Desc) { configs.Describe(to) }

// Collect implements prometheus.Collector. A process that does not lead has nothing in its cache.
func (c *Counter) Collect(to chan<- prometheus.Metric) {
	select {
	case <-c.Leading:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list := &bootstrapv1.BootstrapConfigList{}
	if err := c.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	counts := map[string]int{}
	for _, reason := range waitingReasons.Values {
		counts[reason] = 0 // an alert needs to see that it became none
	}
	for i := range list.Items {
		if !c.Watch.Matches(&list.Items[i]) {
			continue
		}
		reason := reasonOf(list.Items[i].Status.Conditions)
		if _, known := counts[reason]; !known {
			reason = metric.Other
		}
		counts[reason]++
	}
	for reason, n := range counts {
		configs.Send(to, float64(n), reason)
	}
}

// reasonOf is what a BootstrapConfig waits for.
func reasonOf(conditions []metav1.Condition) string {
	if token := meta.FindStatusCondition(conditions, bootstrapv1.TokenReadyCondition); token != nil && token.Status == metav1.ConditionFalse {
		return token.Reason
	}
	if ready := meta.FindStatusCondition(conditions, clusterv1.ReadyCondition); ready != nil {
		return ready.Reason
	}
	return withoutReady
}
