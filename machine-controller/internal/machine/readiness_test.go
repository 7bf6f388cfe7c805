// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/metrics"
	"drover.io/runtime/metric/metrictest"
)

// readyTimes are how often readiness was recorded for a MachineDeployment while do ran.
func readyTimes(t *testing.T, md *clusterv1.MachineDeployment, do func()) float64 {
	t.Helper()
	leading := make(chan struct{})
	close(leading)
	registry := metrictest.Of(t, &metrics.Collector{Leading: leading, Reader: only{md}})
	key := "machine_controller_machine_deployment_ready_duration_seconds cluster=c name=" + md.Name + " namespace=" + md.Namespace
	before := metrictest.Counts(t, registry)[key]
	do()
	return metrictest.Counts(t, registry)[key] - before
}

func TestReadinessIsRecordedOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "once"}, Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c"}}
	version := func(phase clusterv1.MachinePhase, ready metav1.ConditionStatus) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
		m.Status.SetTypedPhase(phase)
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: ready}}
		return m
	}
	pending, joined, ready := version("Provisioned", "False"), version("Running", "False"), version("Running", "True")
	for name, test := range map[string]struct {
		versions []*clusterv1.Machine
		want     float64
	}{
		"when it is ready some time after its Node joined": {[]*clusterv1.Machine{pending, joined, ready}, 1},
		"when it is ready at once":                         {[]*clusterv1.Machine{pending, ready}, 1},
		"when it is ready again later":                     {[]*clusterv1.Machine{pending, ready, joined, ready}, 1},
		"never before it is ready":                         {[]*clusterv1.Machine{pending, joined}, 0},
		"never when its Node joined under another process": {[]*clusterv1.Machine{joined, ready}, 0},
	} {
		r := &readiness{}
		got := readyTimes(t, md, func() {
			for i := range test.versions[1:] {
				r.written(test.versions[i], test.versions[i+1], md, now)
			}
		})
		if got != test.want {
			t.Errorf("%s: recorded %v times, want %v", name, got, test.want)
		}
		if r.release("u"); r.awaited.Len() != 0 {
			t.Errorf("%s: it is awaited after its deletion", name)
		}
	}
}

func TestOperationsOfMachinesAreKnownToMetrics(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	r.setPhases()
	for _, phase := range r.phases {
		if name := metrics.Operation(phase); !metrics.IsKnownOperation(name) {
			t.Errorf("errors of %s are counted as other", name)
		}
	}
}

// only is a cache that holds one MachineDeployment.
type only struct{ *clusterv1.MachineDeployment }

func (only) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is read by name")
}

func (o only) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, is := into.(*clusterv1.MachineDeploymentList); is {
		list.Items = []clusterv1.MachineDeployment{*o.MachineDeployment}
	}
	return nil
}
