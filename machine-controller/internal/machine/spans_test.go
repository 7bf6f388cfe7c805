// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/tracing/tracingtest"
)

// traced is a Machine whose versions a test writes, with a Tracer of its own.
type traced struct {
	t          *testing.T
	reconciler *Reconciler
	recorded   *tracingtest.Recorder
	stored     *clusterv1.Machine
	state      *state
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	tracer, recorded := tracingtest.New(t)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "m", CreationTimestamp: metav1.NewTime(epoch), Finalizers: []string{clusterv1.MachineFinalizer}}}
	return &traced{t, &Reconciler{Tracer: tracer}, recorded, m, &state{}}
}

// written writes a change after so many seconds.
func (r *traced) written(seconds int, change func(*clusterv1.Machine)) {
	r.t.Helper()
	now := epoch.Add(time.Duration(seconds) * time.Second)
	r.reconciler.Clock = testingclock.NewFakePassiveClock(now)
	before, after := r.stored, r.stored.DeepCopy()
	change(after)
	if after.Status.Phase != before.Status.Phase {
		after.Status.LastUpdated = metav1.NewTime(now)
	}
	for i := range after.Status.Conditions {
		if is := &after.Status.Conditions[i]; is.LastTransitionTime.IsZero() {
			is.LastTransitionTime = metav1.NewTime(now)
		}
	}
	r.state.machine = after
	if len(after.Finalizers) == 0 {
		r.reconciler.emitDeletion(before, r.state)
	} else {
		firstReady := r.reconciler.readiness.written(before, after, nil, now)
		r.reconciler.emitPhases(before, r.state, firstReady)
		r.reconciler.emitPhases(after, r.state, false) // a reconcile without a change
	}
	r.stored = after
}

func (r *traced) phase(seconds int, phase clusterv1.MachinePhase, conditions ...metav1.Condition) {
	r.t.Helper()
	r.written(seconds, func(m *clusterv1.Machine) {
		m.Status.SetTypedPhase(phase)
		m.Status.Conditions = conditions
	})
}

func (r *traced) want(lines ...string) {
	r.t.Helper()
	if diff := cmp.Diff(lines, r.recorded.Lines()); diff != "" {
		r.t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func unmet(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "m"}
}

func TestPhasesOfAMachineAreSpans(t *testing.T) {
	t.Parallel()
	r := newTraced(t)
	ready := metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue}
	unready := unmet(clusterv1.MachineReadyCondition, "NotReady")
	r.phase(1, clusterv1.MachinePhasePending, unmet(clusterv1.MachineBootstrapConfigReadyCondition, "WaitingForCluster"), unready)
	r.phase(3, clusterv1.MachinePhaseProvisioning, unmet(clusterv1.MachineInfrastructureReadyCondition, "QuotaExceeded"), unready)
	r.phase(63, clusterv1.MachinePhaseProvisioned, unready)
	r.written(93, func(m *clusterv1.Machine) {
		m.Spec.ProviderID, m.Status.NodeRef.Name = "sim:///1", "node"
		m.Status.SetTypedPhase(clusterv1.MachinePhaseRunning)
		m.Status.Conditions = []metav1.Condition{unmet(clusterv1.MachineNodeHealthyCondition, "KubeletNotReady"), unready}
	})
	r.phase(123, clusterv1.MachinePhaseRunning, ready)
	r.phase(500, clusterv1.MachinePhaseRunning, unready)
	r.phase(600, clusterv1.MachinePhaseRunning, ready) // not for the first time
	r.written(1000, func(m *clusterv1.Machine) {
		m.DeletionTimestamp = new(metav1.NewTime(epoch.Add(998 * time.Second)))
		m.Status.SetTypedPhase(clusterv1.MachinePhaseDeleting)
	})
	r.written(1100, func(m *clusterv1.Machine) { m.Finalizers = nil })
	r.written(1200, func(*clusterv1.Machine) {}) // a finalizer of another program keeps it
	r.want(
		"machine.create 1m33s drover.provider_id=sim:///1 k8s.node.name=node",
		"machine.create.bootstrap_data of machine.create 3s drover.wait.reason=WaitingForCluster drover.wait.message=m",
		"machine.create.instance of machine.create 1m0s drover.wait.reason=QuotaExceeded drover.wait.message=m",
		"machine.create.node of machine.create 30s",
		"machine.create.ready of machine.create 30s drover.wait.reason=KubeletNotReady drover.wait.message=m",
		"machine.delete of machine.create 1m42s drover.provider_id=sim:///1 k8s.node.name=node",
	)
}

// TestRestartLosesNoPhase has another process for each version.
func TestRestartLosesNoPhase(t *testing.T) {
	t.Parallel()
	r := newTraced(t)
	unready := unmet(clusterv1.MachineReadyCondition, "NotReady")
	restart := func() {
		r.reconciler = &Reconciler{Tracer: r.reconciler.Tracer}
	}
	r.phase(1, clusterv1.MachinePhasePending, unready)
	unready.LastTransitionTime = r.stored.Status.Conditions[0].LastTransitionTime
	for i, phase := range []clusterv1.MachinePhase{clusterv1.MachinePhaseProvisioning, clusterv1.MachinePhaseProvisioned, clusterv1.MachinePhaseRunning} {
		restart()
		r.phase(10*(i+1), phase, unready)
	}
	restart()
	r.phase(45, clusterv1.MachinePhaseRunning, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue})
	restart()
	r.phase(50, clusterv1.MachinePhaseRunning, unmet(clusterv1.MachineReadyCondition, "NotReady"))
	restart()
	r.phase(55, clusterv1.MachinePhaseRunning, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue})
	r.want(
		"machine.create 30s",
		"machine.create.bootstrap_data of machine.create 10s",
		"machine.create.instance of machine.create 10s",
		"machine.create.node of machine.create 10s",
		"machine.create.ready of machine.create 15s",
	)
}

// TestPhasesBetweenTwoWritesEndWhenTheirObjectIsReady passes all phases in one write.
func TestPhasesBetweenTwoWritesEndWhenTheirObjectIsReady(t *testing.T) {
	t.Parallel()
	r := newTraced(t)
	since := func(seconds int) contract.Object {
		return contract.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "lastTransitionTime": epoch.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339),
		}}}}}}
	}
	r.state.bootstrap.object = &contract.BootstrapConfig{Object: since(2)}
	r.state.infra.object = &contract.InfraMachine{Object: since(7)}
	r.phase(10, clusterv1.MachinePhaseRunning)
	r.want(
		"machine.create 10s",
		"machine.create.bootstrap_data of machine.create 2s",
		"machine.create.instance of machine.create 5s",
		"machine.create.node of machine.create 3s",
	)
}

func TestMachineThatIsDeletedBeforeItRunsIsAnError(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]bool{"its status shows the deletion": true, "it is gone at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTraced(t)
			r.phase(5, clusterv1.MachinePhaseProvisioning)
			r.recorded.Reset()
			r.stored.DeletionTimestamp = new(metav1.NewTime(epoch.Add(20 * time.Second)))
			if shown {
				r.phase(21, clusterv1.MachinePhaseDeleting)
			}
			r.written(30, func(m *clusterv1.Machine) { m.Finalizers = nil })
			r.want(
				"machine.create 20s error.type=deleted",
				"machine.create.instance of machine.create 15s error.type=deleted",
				"machine.delete of machine.create 10s",
			)
		})
	}
}

func TestSpansThatAreOffAllocateNothing(t *testing.T) {
	r := &Reconciler{Clock: testingclock.NewFakePassiveClock(epoch)}
	before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	s := &state{machine: before.DeepCopy()}
	s.machine.Status.SetTypedPhase(clusterv1.MachinePhaseRunning)
	if n := testing.AllocsPerRun(100, func() {
		r.emitPhases(before, s, true)
		r.emitDeletion(before, s)
		emitAssignment(t.Context(), "node", epoch, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
