// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/results"
)

func TestPhaseOf(t *testing.T) {
	t.Parallel()
	bootstrapped := func(m *clusterv1.Machine) { m.Status.Initialization.BootstrapDataSecretCreated = new(true) }
	provisioned := func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = new(true) }
	identified := func(m *clusterv1.Machine) { m.Spec.ProviderID = "sim://1" }
	joined := func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }
	deleted := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.Now()) }
	for name, test := range map[string]struct {
		has  []func(*clusterv1.Machine)
		want clusterv1.MachinePhase
	}{
		"is pending at first":                             {nil, clusterv1.MachinePhasePending},
		"is provisioning with bootstrap data":             {[]func(*clusterv1.Machine){bootstrapped}, clusterv1.MachinePhaseProvisioning},
		"is provisioned with a providerID":                {[]func(*clusterv1.Machine){bootstrapped, identified}, clusterv1.MachinePhaseProvisioned},
		"is not running before its infrastructure is":     {[]func(*clusterv1.Machine){bootstrapped, identified, joined}, clusterv1.MachinePhaseProvisioned},
		"is not running before it has a Node":             {[]func(*clusterv1.Machine){bootstrapped, identified, provisioned}, clusterv1.MachinePhaseProvisioned},
		"is running with a Node":                          {[]func(*clusterv1.Machine){bootstrapped, identified, provisioned, joined}, clusterv1.MachinePhaseRunning},
		"is deleting whatever else is true":               {[]func(*clusterv1.Machine){bootstrapped, identified, provisioned, joined, deleted}, clusterv1.MachinePhaseDeleting},
		"is deleting even when it never came to anything": {[]func(*clusterv1.Machine){deleted}, clusterv1.MachinePhaseDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			for _, set := range test.has {
				set(m)
			}
			if got := phaseOf(m); got != test.want {
				t.Errorf("phase is %q, want %q", got, test.want)
			}
		})
	}
}

func TestEarlier(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) reconcile.Result { return reconcile.Result{RequeueAfter: d} }
	for name, test := range map[string]struct{ a, b, want reconcile.Result }{
		"takes the second when the first has none": {after(0), after(2), after(2)},
		"takes the first when the second has none": {after(3), after(0), after(3)},
		"takes the smaller":                        {after(5), after(4), after(4)},
		"has none when neither has":                {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, results.Earliest(test.a, test.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetSkipped(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Workloads: workload.New(workload.Options{})}
	for name, test := range map[string]struct {
		change func(*state)
		want   bool
		kind   string
		reason string
	}{
		"does not skip a Machine":             {func(*state) {}, false, clusterv1.PausedCondition, ""},
		"skips a Machine without its Cluster": {func(s *state) { s.cluster = nil }, true, clusterv1.MachineReadyCondition, clusterv1.MachineNotReadyReason},
		"skips a paused Machine": {func(s *state) { s.machine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
			true, clusterv1.PausedCondition, clusterv1.PausedReason},
		"skips a Machine of a paused Cluster": {func(s *state) { s.cluster.Spec.Paused = new(true) }, true, clusterv1.PausedCondition, clusterv1.PausedReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deletingState(test.change)
			if got := r.setSkipped(t.Context(), s); got != test.want {
				t.Errorf("skipped is %t", got)
			}
			if got := conditions.GetReason(s.machine, test.kind); got != test.reason {
				t.Errorf("reason of %s is %q", test.kind, got)
			}
		})
	}
}
