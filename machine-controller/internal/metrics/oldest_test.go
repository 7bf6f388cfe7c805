// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

// oldestOf are the samples of the oldest Machines at noon.
func oldestOf(t *testing.T, machines []clusterv1.Machine) map[string]float64 {
	t.Helper()
	leading := make(chan struct{})
	close(leading)
	got := map[string]float64{}
	collector := &Collector{Leading: leading, Reader: held{machines: machines}, Clock: clocktesting.NewFakePassiveClock(noon)}
	for sample, value := range metrictest.Samples(t, metrictest.Of(t, collector)) {
		if rest, is := strings.CutPrefix(sample, "machine_controller_oldest_machine_seconds "); is {
			got[rest] = value
		}
	}
	return got
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func aged(namespace string, phase clusterv1.MachinePhase, age time.Duration) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
	m.Status.SetTypedPhase(phase)
	return m
}

func TestOldestMachineOfEachPhase(t *testing.T) {
	t.Parallel()
	deleting := aged("a", clusterv1.MachinePhaseDeleting, 1000*time.Hour)
	deleting.DeletionTimestamp = &metav1.Time{Time: noon.Add(-time.Hour)}
	got := oldestOf(t, []clusterv1.Machine{
		aged("a", clusterv1.MachinePhasePending, time.Minute), aged("a", clusterv1.MachinePhasePending, 2*time.Minute),
		aged("b", clusterv1.MachinePhasePending, 3*time.Minute), aged("b", "", 5*time.Minute), aged("a", clusterv1.MachinePhaseRunning, 1000*time.Hour), deleting,
	})
	want := map[string]float64{"namespace=a phase=Pending": 120, "namespace=b phase=Pending": 300, "namespace=a phase=Deleting": 3600}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNamespacesWithTheOldestMachinesHaveSeries(t *testing.T) {
	t.Parallel()
	machines := []clusterv1.Machine{aged("stuck", clusterv1.MachinePhasePending, time.Hour)}
	for i := range 3000 {
		machines = append(machines, aged(fmt.Sprint("team-", i), clusterv1.MachinePhasePending, time.Minute))
	}
	got := oldestOf(t, machines)
	if len(got) != metric.MaxObjects || got["namespace=stuck phase=Pending"] != 3600 {
		t.Errorf("%d series, the one that is stuck has %v", len(got), got["namespace=stuck phase=Pending"])
	}
}
