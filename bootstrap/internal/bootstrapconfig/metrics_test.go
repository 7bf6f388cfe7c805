// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/metric/metrictest"
)

// held is a cache of BootstrapConfigs.
type held struct {
	client.Reader
	items []bootstrapv1.BootstrapConfig
}

func (h held) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*bootstrapv1.BootstrapConfigList).Items = h.items
	return nil
}

func condition(kind, status, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason}
}

func configWith(conditions ...metav1.Condition) bootstrapv1.BootstrapConfig {
	return bootstrapv1.BootstrapConfig{Status: bootstrapv1.BootstrapConfigStatus{Conditions: conditions}}
}

func TestConfigsAreCountedByWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	ready := condition(clusterv1.ReadyCondition, "True", bootstrapv1.DataSecretAvailableReason)
	cache := held{items: []bootstrapv1.BootstrapConfig{
		configWith(), configWith(ready), configWith(ready),
		configWith(ready, condition(bootstrapv1.TokenReadyCondition, "False", bootstrapv1.ClusterForbiddenReason)),
		configWith(condition(clusterv1.ReadyCondition, "False", "AReasonOfAnotherProgram")),
	}}
	leading := make(chan struct{})
	registry := metrictest.Of(t, &Counter{Reader: cache, Leading: leading})
	if got := metrictest.Samples(t, registry); len(got) != 0 {
		t.Errorf("a process that does not lead counts %v", got)
	}
	close(leading)
	got := metrictest.Samples(t, registry)
	for reason, want := range map[string]float64{"None": 1, "DataSecretAvailable": 2, "ClusterForbidden": 1, "other": 1, "InvalidSpec": 0} {
		if n, exists := got["drover_bootstrap_configs reason="+reason]; n != want || !exists {
			t.Errorf("%v wait for %s, want %v", n, reason, want)
		}
	}
}

// It runs alone, as the metrics are shared by the process.
func TestDataIsMeasuredOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	config := configWith(condition(clusterv1.ReadyCondition, "True", bootstrapv1.DataSecretAvailableReason))
	config.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	config.Status.Initialization.DataSecretCreated = new(true)
	registry := metrictest.Of(t, dataSeconds, transitions)
	before := metrictest.Samples(t, registry)
	measure(&config, &bootstrapv1.BootstrapConfigStatus{}, now)
	measure(&config, config.Status.DeepCopy(), now.Add(time.Hour))
	after := metrictest.Samples(t, registry)
	metrictest.Growth(t, before, after, map[string]float64{
		"drover_bootstrap_data_duration_seconds":                                   60,
		"drover_bootstrap_condition_transitions_total condition=Ready status=True": 1,
	})
}
