// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

// It runs alone, as the metrics are shared by the process.
func TestMachineIsMeasuredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := metric.Register(registry); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, fake.Options{BootReads: 1})
	machine, owner := r.machine("measured")
	before := metrictest.Counts(t, registry)
	r.settle(machine)
	r.settle(machine)
	r.delete(machine, owner)
	r.settle(machine)
	r.wantGone(machine)
	after := metrictest.Counts(t, registry)
	metrictest.Growth(t, before, after, map[string]float64{
		"drover_infra_provision_duration_seconds cloud=fake":                                                1,
		"drover_infra_deletion_duration_seconds cloud=fake":                                                 1,
		"drover_infra_condition_transitions_total cloud=fake condition=Ready status=True":                   1,
		"drover_infra_cloud_call_duration_seconds cloud=fake operation=create result=ok":                    1,
		"drover_infra_cloud_call_duration_seconds cloud=fake operation=create result=insufficient_capacity": 0,
	})
}

func TestMachinesAreCountedByReason(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	settled, _ := r.machine("settled")
	r.settle(settled)
	_, _ = r.machine("new")
	leading := make(chan struct{})
	counter := &inframachine.MachineCounter[*infrav1.SimMachine, fake.Config]{Cloud: r.described(), Reader: cluster.Client, Leading: leading}
	registry := metrictest.Of(t, counter)
	if got := metrictest.Samples(t, registry); len(got) != 0 {
		t.Errorf("a process that does not lead counts %v", got)
	}
	close(leading)
	got := metrictest.Samples(t, registry) // with machines of other tests
	if got["drover_infra_machines cloud=fake reason=InstanceRunning"] < 1 || got["drover_infra_machines cloud=fake reason=None"] < 1 {
		t.Errorf("got %v", got)
	}
	if _, zero := got["drover_infra_machines cloud=fake reason=QuotaExceeded"]; !zero {
		t.Error("there is no series of a reason that no machine has")
	}
}
