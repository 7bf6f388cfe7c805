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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

// gathered are the samples of a registry, by metric and labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			samples[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
		}
	}
	return samples
}

// It runs alone, as the counters are shared by the process.
func TestCounters(t *testing.T) {
	registry := prometheus.NewRegistry()
	leading := make(chan struct{})
	if err := (&Collector{Leading: leading, Workers: 10}).Register(registry); err != nil {
		t.Fatal(err)
	}
	before := gathered(t, registry)
	Failed("deletion.drainStep", nil)
	Failed("deletion.drainStep", errors.New("boom"))
	Reached(clusterv1.MachinePhaseRunning, 90*time.Second)
	Replaced(client.ObjectKey{Namespace: "ns", Name: "c"})
	after := gathered(t, registry)
	for sample, want := range map[string]float64{
		"machine_controller_errors_total operation=deletion.drainStep":      1,
		"machine_controller_machine_phase_duration_seconds phase=Running":   90,
		"machine_controller_replacements_total cluster=c namespace=ns":      1,
		"machine_controller_workers_running":                                0,
		"machine_controller_errors_total operation=an operation without it": 0,
	} {
		if got := after[sample] - before[sample]; got != want {
			t.Errorf("%s grew by %v, want %v", sample, got, want)
		}
	}
}

func TestMachinesAreCountedByProviderAndPhase(t *testing.T) {
	t.Parallel()
	machine := func(kind, phase, watch string) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: watch}}}
		m.Spec.InfrastructureRef.Kind, m.Status.Phase = kind, phase
		return m
	}
	reader := interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if machines, is := list.(*clusterv1.MachineList); is {
				machines.Items = []clusterv1.Machine{
					machine("SimMachine", "Running", "own"), machine("SimMachine", "Running", "own"),
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
	registry.MustRegister(&Collector{Reader: reader, Leading: leading, Watch: "own", Workers: 10})
	want := map[string]float64{
		"machine_controller_machines_total phase=Running provider=SimMachine":  2,
		"machine_controller_machines_total phase=Deleting provider=SimMachine": 1,
		"machine_controller_machines_total phase=Running provider=AWSMachine":  1,
		"machine_controller_workers_running":                                   10,
	}
	if diff := cmp.Diff(want, gathered(t, registry)); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}
