// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/testenv"
)

var errRefused = errors.New("refused")

// newRemediation is a phase whose client refuses to write the Machine "refused" and counts the
// other writes, with three unhealthy Machines.
func newRemediation(t *testing.T) (p *remediation, s *state, writes *int) {
	t.Helper()
	api, namespace := management.Client(t), management.Namespace(t)
	s = &state{check: newCheck(namespace, "check"), findings: map[string]health.Finding{}}
	s.decision.Remediate = map[string]bool{"a": true, "z": true}
	for _, name := range []string{"a", "refused", "z"} {
		if err := api.Create(t.Context(), testenv.Machine(namespace, name)); err != nil {
			t.Fatal(err)
		}
		s.findings[name] = health.Finding{State: health.Unhealthy, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, Message: "bad"}
	}
	writes = new(int)
	c := interceptor.NewClient(api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if object.GetName() == "refused" {
				return errRefused
			}
			*writes++
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
	p = &remediation{machineWriter{c, c, events.NewFakeRecorder(10), &expectation.Writes{Clock: clock.RealClock{}}}}
	readTargets(t, s)
	return p, s, writes
}

// readTargets makes the Machines of the API server the targets.
func readTargets(t *testing.T, s *state) {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := management.Client(t).List(t.Context(), list, client.InNamespace(s.check.Namespace)); err != nil {
		t.Fatal(err)
	}
	s.targets = nil
	for i := range list.Items {
		s.targets = append(s.targets, &list.Items[i])
	}
}

func TestOneFailureDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	p, s, _ := newRemediation(t)
	if _, err := p.run(t.Context(), s); !errors.Is(err, errRefused) {
		t.Errorf("the failure is not returned: %v", err)
	}
	readTargets(t, s)
	got := map[string]bool{}
	for _, m := range s.targets {
		got[m.Name] = health.MarkedForOwner(m)
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "refused": false, "z": true}, got); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
}

// TestMarkedMachinesAreWrittenLast: the owner counts the unhealthy Machines when it observes a mark.
func TestMarkedMachinesAreWrittenLast(t *testing.T) {
	t.Parallel()
	p, s, _ := newRemediation(t)
	for name, conflict := range map[string]bool{"a finding is written": false, "a finding conflicts": true} {
		var order []string
		p.client = interceptor.NewClient(management.Client(t), interceptor.Funcs{
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
				order = append(order, object.GetName())
				if conflict {
					return apierrors.NewConflict(clusterv1.GroupVersion.WithResource("machines").GroupResource(), object.GetName(), errRefused)
				}
				return nil
			},
		})
		s.decision.Remediate = map[string]bool{"a": true}
		result, err := p.run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"refused", "z", "a"}
		if conflict {
			want = []string{"refused", "z"}
		}
		if diff := cmp.Diff(want, order); diff != "" || conflict != (result.RequeueAfter > 0) {
			t.Errorf("%s: runs again after %v; Machines written (-want +got):\n%s", name, result.RequeueAfter, diff)
		}
	}
}

func TestAnEqualFindingWritesNothing(t *testing.T) {
	t.Parallel()
	p, s, writes := newRemediation(t)
	for range 3 {
		if _, err := p.run(t.Context(), s); !errors.Is(err, errRefused) {
			t.Errorf("remediating: %v", err)
		}
		readTargets(t, s)
	}
	if *writes != 2 {
		t.Errorf("%d writes for two Machines", *writes)
	}
	if emitted := len(p.events.(*events.FakeRecorder).Events); emitted != 2 {
		t.Errorf("%d events about two Machines", emitted)
	}
}

func TestWaitsUntilTheCacheShowsItsWrites(t *testing.T) {
	t.Parallel()
	version := func(v string) []*clusterv1.Machine {
		return []*clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{UID: "m", ResourceVersion: v}}}
	}
	r := &Reconciler{writes: &expectation.Writes{Clock: clock.RealClock{}}}
	if r.behind(version("7")) {
		t.Error("waits for nothing")
	}
	r.writes.Note(version("9")[0])
	if !r.behind(version("8")) {
		t.Error("does not wait for its own write")
	}
	if r.behind(version("10")) || r.behind(version("8")) {
		t.Error("waits after the cache has shown the write")
	}
}

func TestOwnerRemediatedStays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		external bool
		change   func(*clusterv1.Machine)
		want     string
	}{
		"while the Machine is marked":               {reason: clusterv1.MachineSetMachineRemediationDeferredReason, change: setWaitingForOwner, want: clusterv1.MachineSetMachineRemediationDeferredReason},
		"not when the owner has done nothing yet":   {reason: clusterv1.MachineSetMachineRemediationDeferredReason, change: health.RemoveMark},
		"when the owner is deleting the Machine":    {reason: clusterv1.MachineSetMachineRemediationMachineDeletingReason, change: health.RemoveMark, want: clusterv1.MachineSetMachineRemediationMachineDeletingReason},
		"when an external controller remediates it": {reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, external: true, change: health.RemoveMark, want: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason},
		"not when the Machine is healthy":           {reason: clusterv1.MachineSetMachineRemediationMachineDeletingReason, change: setHealthy},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: test.reason})
			if test.external {
				setWaitingForExternal(m)
			}
			test.change(m)
			if got := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition); got != test.want {
				t.Errorf("reason of OwnerRemediated: %q, want %q", got, test.want)
			}
		})
	}
}

func TestEventOfRestrictedRemediationIsEmittedOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	check := newCheck("ns", "check")
	before := check.DeepCopy()
	setNotAllowed(check, BudgetUsedReason, "1 of pool")
	report(recorder, before, check)
	before = check.DeepCopy()
	setNotAllowed(check, BudgetUsedReason, "2 of pool")
	report(recorder, before, check)
	if emitted := len(recorder.Events); emitted != 1 {
		t.Errorf("%d events about one restriction", emitted)
	}
}

func TestHealthInputChanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"stops what has not changed": {change: func(*clusterv1.Machine) {}},
		"stops changed messages": {change: func(m *clusterv1.Machine) {
			m.Status.Conditions[0].Message, m.Status.Phase, m.ResourceVersion = "another message", "Running", "9"
		}},
		"passes a changed condition": {want: true, change: func(m *clusterv1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse }},
		"passes a new annotation": {want: true, change: func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		}},
		"stops the reasons of most conditions": {change: func(m *clusterv1.Machine) { m.Status.Conditions[0].Reason = "Other" }},
		"passes that the owner has refused": {want: true, change: func(m *clusterv1.Machine) {
			m.Status.Conditions[1].Reason = clusterv1.MachineSetMachineCannotBeRemediatedReason
		}},
		"passes another label":    {want: true, change: func(m *clusterv1.Machine) { m.Labels = map[string]string{"pool": "b"} }},
		"passes a deletion":       {want: true, change: func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.Now()) }},
		"passes a Node":           {want: true, change: func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }},
		"passes a failure domain": {want: true, change: func(m *clusterv1.Machine) { m.Status.FailureDomain = "a" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &clusterv1.Machine{}
			before.Status.Conditions = []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue},
				{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason},
			}
			after := before.DeepCopy()
			test.change(after)
			if got := healthInputChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("passes %t, want %t", got, test.want)
			}
		})
	}
}

// TestAConflictIsRetried changes a field between the read and the write whose event triggers no reconcile.
func TestAConflictIsRetried(t *testing.T) {
	t.Parallel()
	p, s, _ := newRemediation(t)
	delete(s.findings, "refused")
	s.targets = slices.DeleteFunc(s.targets, func(m *clusterv1.Machine) bool { return m.Name == "refused" })
	other := s.targets[0].DeepCopy()
	other.Status.Phase = "Running"
	if err := management.Client(t).Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	result, err := p.run(t.Context(), s)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %v, %v, and no reconcile is due", result, err)
	}
	readTargets(t, s)
	s.targets = slices.DeleteFunc(s.targets, func(m *clusterv1.Machine) bool { return m.Name == "refused" })
	if result, err = p.run(t.Context(), s); err != nil || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v", result, err)
	}
	readTargets(t, s)
	if !health.MarkedForOwner(s.targets[0]) {
		t.Error("the Machine is not marked")
	}
}
