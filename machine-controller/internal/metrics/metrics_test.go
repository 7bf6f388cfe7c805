// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

type drainStep struct{}

func TestOperationIsTheNameOfTheStep(t *testing.T) {
	t.Parallel()
	for want, step := range map[string]any{"metrics.drainStep": drainStep{}} {
		if got := Operation(step); got != want {
			t.Errorf("operation %q, want %q", got, want)
		}
		if got := Operation(&drainStep{}); got != want {
			t.Errorf("operation of a pointer is %q, want %q", got, want)
		}
	}
}

// It runs alone, as the counters are shared by the process.
func TestCounters(t *testing.T) {
	registry := prometheus.NewRegistry()
	leading := make(chan struct{})
	close(leading)
	cluster := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	registry.MustRegister(&Collector{Leading: leading, Workers: 10, Reader: held{clusters: []clusterv1.Cluster{cluster}}})
	if err := metric.Register(registry); err != nil {
		t.Fatal(err)
	}
	before := metrictest.Samples(t, registry)
	for _, series := range []string{"machine_controller_replacements_total cluster=c namespace=ns", "machine_controller_freezes_total reason=Overshoot"} {
		if value, is := before[series]; !is || value != 0 {
			t.Errorf("%s does not start at 0, so that Prometheus does not see the first increase", series)
		}
	}
	IncOperationErrors("deletion.drainStep", nil)
	IncOperationErrors("deletion.drainStep", errors.New("boom"))
	IncOperationErrors("what a tenant writes", errors.New("boom"))
	ObservePhase(clusterv1.MachinePhaseRunning, 90*time.Second)
	IncRemediations(client.ObjectKey{Namespace: "ns", Name: "c"})
	IncRemediations(client.ObjectKey{Namespace: "ns", Name: "does not exist"})
	after := metrictest.Samples(t, registry)
	metrictest.Growth(t, before, after, map[string]float64{
		"machine_controller_errors_total operation=deletion.drainStep":              1,
		"machine_controller_errors_total operation=other":                           1,
		"machine_controller_machine_phase_duration_seconds phase=Running":           90,
		"machine_controller_replacements_total cluster=c namespace=ns":              1,
		"machine_controller_replacements_total cluster=does not exist namespace=ns": 0,
		"machine_controller_errors_total operation=an operation without it":         0,
	})
}

// It runs alone, as the counters are shared by the process.
func TestTransitionsOfConditionsAreCounted(t *testing.T) {
	registry := metrictest.Of(t, transitions, freezes)
	before := metrictest.Samples(t, registry)
	was, is := &clusterv1.MachineDeployment{}, &clusterv1.MachineDeployment{}
	was.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue}}
	is.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse},
		{Type: droverpolicyv1.FrozenCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.OvershootReason},
		{Type: "a readiness gate of a tenant", Status: metav1.ConditionTrue},
	}
	ObserveConditionTransitions(was, is)
	ObserveConditionTransitions(is, is)
	after := metrictest.Samples(t, registry)
	metrictest.Growth(t, before, after, map[string]float64{
		"machine_controller_condition_transitions_total condition=Available kind=MachineDeployment status=False": 1,
		"machine_controller_condition_transitions_total condition=Frozen kind=MachineDeployment status=True":     1,
		"machine_controller_condition_transitions_total condition=other kind=MachineDeployment status=True":      1,
		"machine_controller_freezes_total reason=Overshoot":                                                      1,
	})
}

func TestMachinesAreCountedByProviderAndPhase(t *testing.T) {
	t.Parallel()
	machine := func(kind, phase, watch string) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: watch}}}
		m.Spec.InfrastructureRef.Kind, m.Status.Phase = kind, phase
		return m
	}
	created := machine("SimMachine", "", "own") // nobody has reconciled it yet
	created.CreationTimestamp = metav1.Now()
	reader := interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if machines, is := list.(*clusterv1.MachineList); is {
				machines.Items = []clusterv1.Machine{
					machine("SimMachine", "Running", "own"), machine("SimMachine", "Running", "own"), created,
					machine("SimMachine", "Deleting", "own"), machine("AWSMachine", "Running", "own"), machine("AWSMachine", "Running", "other"),
				}
				return nil
			}
			return errors.New("the cache has not started")
		},
	})
	leading := make(chan struct{})
	close(leading)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&Collector{Reader: reader, Leading: leading, Watch: "own", Workers: 10, Clock: clocktesting.NewFakePassiveClock(created.CreationTimestamp.Time)})
	want := map[string]float64{
		"machine_controller_machines_total phase=Running provider=SimMachine":  2,
		"machine_controller_machines_total phase=Deleting provider=SimMachine": 1,
		"machine_controller_machines_total phase=Pending provider=SimMachine":  1,
		"machine_controller_machines_total phase=Running provider=AWSMachine":  1,
		"machine_controller_oldest_machine_seconds namespace= phase=Pending":   0,
		"machine_controller_workers_running":                                   10,
	}
	if diff := cmp.Diff(want, metrictest.Samples(t, registry)); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}
