// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

func TestRestartsUpToTheLimitAndHandsBack(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 2)
	for attempt := range 2 {
		r.step(minute)
		r.want(infrav1.RestartRemediationWaiting, int32(attempt+1), infrav1.WaitingForHealthReason)
		r.wantRestarts(attempt + 1)
		r.now = r.now.Add(minute - time.Second)
		r.step(time.Second) // its time is not over
		r.wantRestarts(attempt + 1)
		r.wantOwner(false)
		r.now = r.now.Add(time.Second)
	}
	for range 3 {
		r.step(0)
		r.want(infrav1.RestartRemediationHandedBack, 2, infrav1.RetriesSpentReason)
		r.now = r.now.Add(minute)
	}
	r.wantRestarts(2)
	r.wantOwner(true)
	want := []string{
		"Normal InstanceRestarted restart 1 of 2: the Machine is unhealthy",
		"Normal InstanceRestarted restart 2 of 2: the Machine is unhealthy",
		"Warning RemediationHandedBack no further restarts, the owner replaces the Machine: the Machine did not become healthy within 1m0s of any of 2 restarts",
	}
	if diff := cmp.Diff(want, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWritesNothingWhenNothingChanged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.step(minute)
	writes := r.writes
	for range 3 {
		r.step(minute)
	}
	if r.writes != writes {
		t.Errorf("%d writes in a quiet period", r.writes-writes)
	}
}

// TestFailedWriteRepeatsOneCallAtMost kills the reconciler at each of its writes.
func TestFailedWriteRepeatsOneCallAtMost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ dieAt, after, restarts int }{
		"before the intent is stored nothing was asked":     {0, 0, 1},
		"before the answer is stored it is requested again": {1, 1, 2},
		"before the Machine is told it is told later":       {2, 1, 1},
		"before it is stored that the Machine was told":     {3, 1, 1},
		"and after everything is stored nothing happens":    {4, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, 1)
			r.dieAt = test.dieAt
			for range 4 {
				if _, err := r.reconcile(); errors.Is(err, errKilled) {
					r.restart()
					if test.dieAt < 2 {
						r.wantRestarts(test.after)
					}
				} else {
					r.must(err)
				}
			}
			r.want(infrav1.RestartRemediationWaiting, 1, infrav1.WaitingForHealthReason)
			r.now = r.now.Add(minute)
			for range 3 {
				if _, err := r.reconcile(); errors.Is(err, errKilled) {
					r.restart()
				} else {
					r.must(err)
				}
			}
			r.want(infrav1.RestartRemediationHandedBack, 1, infrav1.RetriesSpentReason)
			r.wantRestarts(test.restarts)
			r.wantOwner(true)
		})
	}
}

// TestIntentIsStoredFirst reads what is stored when the cloud is called.
func TestIntentIsStoredFirst(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "restart" {
			stored := &infrav1.RestartRemediation{}
			r.must(cluster.Client.Get(t.Context(), keyOf(r.remediation), stored))
			r.remediation = stored
			r.want(infrav1.RestartRemediationRestarting, 1, infrav1.RestartingReason)
		}
		return fake.Fault{}
	}
	r.step(minute)
	r.wantRestarts(1)
}

func TestHandsBackAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given  func(*fixture)
		reason string
		begun  int32
	}{
		"what somebody stopped": {func(r *fixture) {
			r.cloud.Set("worker-uid", func(i *driver.Instance) { i.State = driver.Stopped })
		}, infrav1.InstanceStoppedReason, 1},
		"what stops": {func(r *fixture) {
			r.cloud.Set("worker-uid", func(i *driver.Instance) { i.State = driver.Stopping })
		}, infrav1.InstanceStoppedReason, 1},
		"what is gone": {func(r *fixture) { r.cloud.Destroy("worker-uid") }, infrav1.InstanceMissingReason, 1},
		"what belongs to somebody else": {func(r *fixture) {
			r.cloud.Set("worker-uid", func(i *driver.Instance) { i.Identity.Name = "theirs" })
		}, infrav1.InstanceNotOwnedReason, 1},
		"what never had an instance": {func(r *fixture) {
			r.must(cluster.Client.Delete(r.t.Context(), r.infra))
			r.infra = &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: r.infra.Namespace, Name: r.infra.Name}}
			r.must(cluster.Client.Create(r.t.Context(), r.infra))
		}, infrav1.InstanceMissingReason, 0},
		"what has no infrastructure": {func(r *fixture) { r.must(cluster.Client.Delete(r.t.Context(), r.infra)) }, infrav1.InstanceMissingReason, 0},
		"where the cloud cannot restart": {func(r *fixture) {
			r.unable = true
			r.restart()
		}, infrav1.RestartNotSupportedReason, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, 3)
			test.given(r)
			for range 2 {
				r.step(0)
				r.want(infrav1.RestartRemediationHandedBack, test.begun, test.reason)
			}
			r.wantRestarts(0)
			r.wantOwner(true)
			if recorded := r.events(); len(recorded) != 1 {
				t.Errorf("events: %q, want one", recorded)
			}
		})
	}
}

func TestRetriesTransientErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault        fake.Fault
		reason       string
		requeueAfter time.Duration
		restarts     int
	}{
		"a failure":          {fake.Fault{Err: errors.New("gateway timeout")}, infrav1.CloudErrorReason, 15 * time.Second, 1},
		"an answer was lost": {fake.Fault{Err: fake.ErrLost, Lost: true}, infrav1.CloudErrorReason, 15 * time.Second, 2},
		"a limit":            {fake.Fault{Err: &driver.RateLimitedError{RetryAfter: 20 * time.Second, Err: errors.New("slow down")}}, infrav1.RateLimitedReason, 20 * time.Second, 1},
		"credentials":        {fake.Fault{Err: &driver.UnauthorizedError{Err: errors.New("token refused")}}, infrav1.UnauthorizedReason, minute, 1},
		"a start":            {fake.Fault{Err: &driver.NotRunningError{State: driver.Pending}}, infrav1.InstancePendingReason, 10 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, 1)
			struck := false
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation != "restart" || struck {
					return fake.Fault{}
				}
				struck = true
				return test.fault
			}
			r.step(test.requeueAfter)
			r.want(infrav1.RestartRemediationRestarting, 1, test.reason)
			r.now = r.now.Add(min(test.requeueAfter, minute-time.Second) + time.Second/2)
			r.step(minute)
			r.want(infrav1.RestartRemediationWaiting, 1, infrav1.WaitingForHealthReason)
			r.wantRestarts(test.restarts)
			r.wantOwner(false)
		})
	}
}

// TestHangingCloudUsesUpTheAttempt: a failure of the cloud does not hold a Machine for ever.
func TestHangingCloudUsesUpTheAttempt(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.faults = func(fake.Call) fake.Fault { return fake.Fault{Err: errors.New("internal error")} }
	for range 4 {
		r.step(15 * time.Second)
		r.want(infrav1.RestartRemediationRestarting, 1, infrav1.CloudErrorReason)
		r.now = r.now.Add(15 * time.Second)
	}
	r.step(0)
	r.want(infrav1.RestartRemediationHandedBack, 1, infrav1.RetriesSpentReason)
	r.wantOwner(true)
}

func TestSkipsRestart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given  func(*fixture)
		reason string
	}{
		"for a Machine that nobody calls unhealthy": {func(r *fixture) { r.setHealth(metav1.ConditionTrue) }, infrav1.MachineNotUnhealthyReason},
		"while the workload cluster does not answer": {func(r *fixture) {
			r.connection(metav1.ConditionFalse)
		}, infrav1.ClusterUnreachableReason},
		"for a Machine that is being deleted": {func(r *fixture) {
			r.update(r.owner, func() { r.owner.Finalizers = []string{"test.drover.io/hold"} })
			r.must(cluster.Client.Delete(r.t.Context(), r.owner))
		}, infrav1.MachineDeletingReason},
		"while the infrastructure is being deleted": {func(r *fixture) {
			r.update(r.infra, func() { r.infra.Finalizers = []string{"test.drover.io/hold"} })
			r.must(cluster.Client.Delete(r.t.Context(), r.infra))
		}, infrav1.MachineDeletingReason},
		"without a Cluster":   {func(r *fixture) { r.must(cluster.Client.Delete(r.t.Context(), r.home)) }, infrav1.MachineDeletingReason},
		"without its Machine": {func(r *fixture) { r.must(cluster.Client.Delete(r.t.Context(), r.owner)) }, ""},
		"for a Machine of its name that came later": {func(r *fixture) {
			r.must(cluster.Client.Delete(r.t.Context(), r.owner))
			later := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: r.owner.Namespace, Name: r.owner.Name}, Spec: r.owner.Spec}
			r.must(cluster.Client.Create(r.t.Context(), later))
		}, ""},
		"without an owner": {func(r *fixture) {
			r.update(r.remediation, func() { r.remediation.OwnerReferences = nil })
		}, ""},
		"for a Machine of another cloud": {func(r *fixture) {
			r.update(r.owner, func() { r.owner.Spec.InfrastructureRef.Kind = "OtherMachine" })
		}, ""},
		"for a Machine that is labelled for another provider": {func(r *fixture) {
			r.WatchFilter = "ours"
			r.update(r.remediation, func() { r.remediation.Labels = map[string]string{clusterv1.WatchLabel: "ours"} })
			r.update(r.owner, func() { r.owner.Labels = map[string]string{clusterv1.WatchLabel: "theirs"} })
		}, infrav1.ForeignMachineReason},
		"for infrastructure that is labelled for another provider": {func(r *fixture) {
			r.WatchFilter = "ours"
			r.update(r.remediation, func() { r.remediation.Labels = map[string]string{clusterv1.WatchLabel: "ours"} })
			r.update(r.infra, func() { r.infra.Labels = map[string]string{clusterv1.WatchLabel: "theirs"} })
		}, infrav1.ForeignMachineReason},
		"for a remediation that its filter does not match": {func(r *fixture) { r.WatchFilter = "mine" }, ""},
		"for a remediation that is being deleted": {func(r *fixture) {
			r.update(r.remediation, func() { r.remediation.Finalizers = []string{"test.drover.io/hold"} })
			r.must(cluster.Client.Delete(r.t.Context(), r.remediation))
		}, ""},
		"for a remediation that is gone": {func(r *fixture) { r.must(cluster.Client.Delete(r.t.Context(), r.remediation)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, 1)
			test.given(r)
			var requeueAfter time.Duration
			if test.reason == infrav1.ForeignMachineReason {
				requeueAfter = time.Minute
			}
			r.step(requeueAfter)
			if test.reason != "" {
				r.want("", 0, test.reason)
			} else if len(r.remediation.Status.Conditions) > 0 {
				t.Errorf("the remediation was written: %+v", r.remediation.Status)
			}
			r.wantRestarts(0)
			r.wantOwner(false)
		})
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	annotated := map[string]string{clusterv1.PausedAnnotation: ""}
	for name, pause := range map[string]func(*fixture){
		"with the Cluster": func(r *fixture) { r.update(r.home, func() { r.home.Spec.Paused = ptr.To(true) }) },
		"with its own annotation": func(r *fixture) {
			r.update(r.remediation, func() { r.remediation.Annotations = annotated })
		},
		"with the Machine":        func(r *fixture) { r.update(r.owner, func() { r.owner.Annotations = annotated }) },
		"with the infrastructure": func(r *fixture) { r.update(r.infra, func() { r.infra.Annotations[clusterv1.PausedAnnotation] = "" }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, 1)
			pause(r)
			r.step(0)
			r.wantRestarts(0)
			if paused := condition(r.remediation, clusterv1.PausedCondition); paused.Reason != clusterv1.PausedReason {
				t.Errorf("condition Paused is %+v", paused)
			}
		})
	}
}

// TestOutageExtendsTheTimeout: while the workload cluster does not answer the health of the Machine is not known.
func TestOutageExtendsTheTimeout(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 2)
	r.step(minute)
	r.connection(metav1.ConditionFalse)
	r.now = r.now.Add(2 * minute)
	r.step(0)
	r.want(infrav1.RestartRemediationWaiting, 1, infrav1.ClusterUnreachableReason)
	r.connection(metav1.ConditionTrue)
	r.step(minute)
	r.want(infrav1.RestartRemediationWaiting, 1, infrav1.WaitingForHealthReason)
	r.wantRestarts(1)
	r.now = r.now.Add(minute)
	r.step(minute)
	r.wantRestarts(2)
}

// TestCountRestartsAfterRecovery: its remediation is deleted, and the next one counts from the start.
func TestCountRestartsAfterRecovery(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.step(minute)
	r.setHealth(metav1.ConditionTrue)
	r.now = r.now.Add(2 * minute)
	r.step(0)
	r.want(infrav1.RestartRemediationWaiting, 1, infrav1.MachineNotUnhealthyReason)
	r.must(cluster.Client.Delete(t.Context(), r.remediation))
	r.step(0)
	r.wantOwner(false)
	r.setHealth(metav1.ConditionFalse)
	r.request(1)
	r.step(minute)
	r.want(infrav1.RestartRemediationWaiting, 1, infrav1.WaitingForHealthReason)
	r.wantRestarts(2)
}

// TestConflictPreventsTheRestart: the other write may have paused the remediation.
func TestConflictPreventsTheRestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.Live = &meanwhile{Reader: cluster.Client, then: func() {
		r.update(r.remediation, func() { r.remediation.Annotations = map[string]string{"somebody": "was here"} })
	}}
	r.step(time.Second)
	r.wantRestarts(0)
	r.step(minute)
	r.wantRestarts(1)
}

// TestDeletedRemediationPreventsTheRestart: the Machine became healthy before the intent was stored.
func TestDeletedRemediationPreventsTheRestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.Live = &meanwhile{Reader: cluster.Client, then: func() { r.must(cluster.Client.Delete(t.Context(), r.remediation)) }}
	r.step(0)
	r.wantRestarts(0)
	r.wantOwner(false)
}

// TestKeepsTheConditionOfTheOwner about the replacement.
func TestKeepsTheConditionOfTheOwner(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.cloud.Destroy("worker-uid")
	r.owner.Status.Conditions = append(r.owner.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineSetMachineRemediationDeferredReason, LastTransitionTime: metav1.Now(),
	})
	r.must(cluster.Client.Status().Update(t.Context(), r.owner))
	before := condition(r.owner, clusterv1.MachineOwnerRemediatedCondition)
	r.step(0)
	r.want(infrav1.RestartRemediationHandedBack, 1, infrav1.InstanceMissingReason)
	if diff := cmp.Diff(before, condition(r.owner, clusterv1.MachineOwnerRemediatedCondition)); diff != "" {
		t.Errorf("condition OwnerRemediated (-before +after):\n%s", diff)
	}
}
