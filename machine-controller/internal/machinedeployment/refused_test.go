// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/testenv"
)

// TestWhatNoMachineSetCanHaveIsReported scales a deployment with a label in its template that was stored before there was a
// rule against it, or with annotations that are too long together with those of its MachineSet.
func TestWhatNoMachineSetCanHaveIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		names  string
	}{
		"a label":          {func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["team"] = "a b" }, "a b"},
		"long annotations": {func(md *clusterv1.MachineDeployment) { md.Annotations["own"] = strings.Repeat("x", 200_000) }, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			set := setOf(md, "set", md.Spec.Template.Spec.Version)
			set.Spec.Replicas = new(int32(3))
			set.Annotations["set"] = strings.Repeat("x", 100_000)
			for key, value := range (rollout.SizeAnnotations{Desired: 3, Max: 4}).Annotations() {
				set.Annotations[key] = value
			}
			r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
			r.setUp()
			r.get(t, md)
			md.Spec.Replicas = new(int32(5))
			test.change(md)
			r.get(t, set)
			s := &state{deployment: md, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{set}}
			if _, err := r.rollOut(t.Context(), s); err != nil {
				t.Error(err)
			}
			r.get(t, set)
			if *set.Spec.Replicas != 5 {
				t.Errorf("the MachineSet has %d replicas, want 5", *set.Spec.Replicas)
			}
			setStatus(s, r.Clock.Now())
			if message := conditions.GetMessage(md, clusterv1.MachineDeploymentAvailableCondition); !strings.Contains(message, test.names) {
				t.Errorf("the message of Available is %q", message)
			}
		})
	}
}

// protection refuses to update and to delete the MachineSets of some names, as an admission policy does, and counts that.
type protection struct {
	names    []string
	refusals int
}

func (p *protection) check(o client.Object) error {
	if _, is := o.(*clusterv1.MachineSet); !is || !slices.Contains(p.names, o.GetName()) {
		return nil
	}
	p.refusals++
	return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machinesets").GroupResource(), o.GetName(), errors.New("it is protected"))
}

func (p *protection) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := p.check(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := p.check(o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
	}
}

// follow writes the status of a MachineSet that has followed its spec.
func (r *Reconciler) follow(t *testing.T, set *clusterv1.MachineSet) {
	t.Helper()
	r.get(t, set)
	n := set.Spec.Replicas
	set.Status.ObservedGeneration = set.Generation
	set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas, set.Status.UpToDateReplicas = n, n, n, n
	if err := r.Client.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// protectedOld is a MachineDeployment whose MachineSets have followed it, and whose old one may not be changed from now on.
type protectedOld struct {
	*Reconciler
	md           *clusterv1.MachineDeployment
	old, current *clusterv1.MachineSet
	policy       *protection
	result       reconcile.Result
}

func newProtectedOld(t *testing.T, size, left int32) *protectedOld {
	t.Helper()
	md := selecting()
	md.Spec.Replicas = &size
	f := &protectedOld{md: md, old: setOf(md, "old", "v1.36.1"), current: setOf(md, "current", md.Spec.Template.Spec.Version), policy: &protection{}}
	f.old.Spec.Replicas, f.current.Spec.Replicas = &left, &size
	f.Reconciler = reconcilerWith(t, f.policy.funcs(), testenv.Cluster(""), md, f.old, f.current)
	f.setUp()
	for range 2 { // the MachineSets have what changes in place
		if err := f.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
	f.policy.names = []string{"old"}
	return f
}

// reconcile reconciles once the MachineSets have followed their specs.
func (f *protectedOld) reconcile(t *testing.T) error {
	t.Helper()
	f.follow(t, f.old)
	f.follow(t, f.current)
	f.get(t, f.md)
	f.statusWriter = statuswriter.New(f.Client, f.Clock) // it need not wait
	var err error
	f.result, err = f.Reconcile(t.Context(), f.md)
	return err
}

// update stores the spec of the MachineDeployment.
func (f *protectedOld) update(t *testing.T) {
	t.Helper()
	if err := f.Client.Update(t.Context(), f.md); err != nil {
		t.Fatal(err)
	}
}

// TestProtectedOldSetIsReported has an empty MachineSet of an older template that may not be deleted: every Machine is available, and
// the attempts are few.
func TestProtectedOldSetIsReported(t *testing.T) {
	t.Parallel()
	f := newProtectedOld(t, 0, 0)
	clock := clocktesting.NewFakePassiveClock(epoch)
	f.refused.Clock = clock
	metav1.SetMetaDataAnnotation(&f.md.ObjectMeta, revision.HistoryLimitAnnotation, "0")
	f.update(t)
	for _, pass := range []struct {
		after    time.Duration
		refusals int
	}{{0, 1}, {0, 1}, {0, 1}, {safety.RetryPeriod - 1, 1}, {safety.RetryPeriod, 2}, {safety.RetryPeriod, 2}} {
		clock.SetTime(epoch.Add(pass.after))
		before := f.policy.refusals
		if err := f.reconcile(t); (err != nil) != (f.policy.refusals > before) {
			t.Errorf("after %s: error %v", pass.after, err)
		}
		if f.policy.refusals != pass.refusals {
			t.Errorf("after %s: %d attempts, want %d", pass.after, f.policy.refusals, pass.refusals)
		}
		if pass.refusals == 1 && f.policy.refusals > before {
			continue // the current MachineSet has not grown yet
		}
		f.get(t, f.md)
		got := statusAndReasonOf(f.md, clusterv1.MachineDeploymentRollingOutCondition)
		if !conditions.IsTrue(f.md, clusterv1.MachineDeploymentAvailableCondition) || got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, `deleting MachineSet "old"`) {
			t.Errorf("after %s: Available is %+v, RollingOut %+v", pass.after, statusAndReasonOf(f.md, clusterv1.MachineDeploymentAvailableCondition), got)
		}
	}
}

// protectedStep is the first step of a rolling update whose old MachineSet, with three available Machines, may not be changed.
type protectedStep struct {
	*Reconciler
	md           *clusterv1.MachineDeployment
	old, current *clusterv1.MachineSet
	policy       *protection
}

func newProtectedStep(t *testing.T, maxUnavailable int32) *protectedStep {
	t.Helper()
	md := selecting()
	md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(maxUnavailable))
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
	f := &protectedStep{md: md, old: setOf(md, "old", "v1.36.1"), current: setOf(md, "current", md.Spec.Template.Spec.Version), policy: &protection{names: []string{"old"}}}
	f.old.Spec.Replicas, f.current.Spec.Replicas = new(int32(3)), new(int32(0))
	f.current.Annotations[clusterv1.RevisionAnnotation] = "7"
	f.Reconciler = reconcilerWith(t, f.policy.funcs(), testenv.Cluster(""), md, f.old, f.current)
	f.setUp()
	f.follow(t, f.old)
	f.follow(t, f.current)
	f.get(t, md)
	return f
}

// rollOut takes the step while the cache shows that state of the current MachineSet, and sets the conditions.
func (f *protectedStep) rollOut(t *testing.T, cached *clusterv1.MachineSet) (rollingOut statusAndReason, err error) {
	t.Helper()
	available := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: f.old.UID, Controller: new(true)}}}}
	conditions.Set(available, metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "Test"})
	s := &state{
		deployment: f.md, cluster: testenv.Cluster(f.md.Namespace), sets: []*clusterv1.MachineSet{f.old.DeepCopy(), cached.DeepCopy()},
		machines: []*clusterv1.Machine{available, available, available},
	}
	for _, set := range s.sets { // nothing changes in place
		inplace.PropagateToMachineSet(set, f.md)
	}
	_, err = f.Reconciler.rollOut(t.Context(), s)
	setStatus(s, f.Clock.Now())
	return statusAndReasonOf(f.md, clusterv1.MachineDeploymentRollingOutCondition), err
}

// TestRefusedPartOfAStepIsReported has a step that lowers the old MachineSet, and raises the current one, which succeeds. The cache
// shows that later; the conditions are the same before and after.
func TestRefusedPartOfAStepIsReported(t *testing.T) {
	t.Parallel()
	f := newProtectedStep(t, 1)
	stale := f.current.DeepCopy()
	for i, cached := range []*clusterv1.MachineSet{f.current, stale, f.current} {
		if i != 1 {
			f.get(t, cached)
		}
		got, err := f.rollOut(t, cached)
		if (err != nil) != (i == 0) || f.policy.refusals != 1 || got.Reason != droverpolicyv1.BlockedReason || !strings.Contains(got.Message, "it is protected") {
			t.Errorf("pass %d: RollingOut is %+v, %d attempts, error %v", i, got, f.policy.refusals, err)
		}
	}
	if f.get(t, f.current); *f.current.Spec.Replicas == 0 {
		t.Error("the current MachineSet is not scaled")
	}
}

// TestRefusalIsReportedBesideASuccess has a step that forbids the old MachineSet, which may not be changed, to create Machines, and
// then creates the current one.
func TestRefusalIsReportedBesideASuccess(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	old := setOf(md, "old", "v1.36.1")
	old.Spec.Replicas = new(int32(3))
	policy := &protection{names: []string{"old"}}
	r := reconcilerWith(t, policy.funcs(), testenv.Cluster(""), md, old)
	r.setUp()
	r.follow(t, old)
	r.get(t, md)
	inplace.PropagateToMachineSet(old, md) // nothing changes in place
	s := &state{deployment: md, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{old}}
	_, err := r.rollOut(t.Context(), s)
	if created := len(r.resourceVersions(t, md.Namespace)) == 2; !created || err == nil || s.notApplied == nil {
		t.Errorf("created: %t, not applied: %v, error %v", created, s.notApplied, err)
	}
}

// TestProtectedSetThatCannotBeToldHowToDelete has an old MachineSet that may not be changed, and a change of the size together with
// one of how Machines are deleted, which goes to each MachineSet before.
func TestProtectedSetThatCannotBeToldHowToDelete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ of, want int32 }{"without Machines": {0, 5}, "with a Machine": {1, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newProtectedOld(t, 3, test.of)
			f.md.Spec.Replicas, f.md.Spec.Deletion.Order = new(int32(5)), clusterv1.NewestMachineSetDeletionOrder
			f.update(t)
			for range 3 {
				if err := f.reconcile(t); err != nil {
					t.Error(err) // the next attempt would come later each time
				}
			}
			f.get(t, f.current)
			f.get(t, f.md)
			blocked := strings.Contains(conditions.GetMessage(f.md, clusterv1.MachineDeploymentAvailableCondition), "it is protected")
			if after := f.result.RequeueAfter; blocked && (after <= 0 || after > safety.RetryPeriod) {
				t.Errorf("it is reconciled again after %s, want %s at most", after, safety.RetryPeriod)
			}
			if *f.current.Spec.Replicas != test.want || blocked != (test.of > 0) {
				t.Errorf("the current MachineSet has %d replicas, want %d; Available is %+v", *f.current.Spec.Replicas, test.want, statusAndReasonOf(f.md, clusterv1.MachineDeploymentAvailableCondition))
			}
		})
	}
}

// TestEmptySetIsNotWritten: a change of the size is no concern of a MachineSet without Machines, which may be protected.
func TestEmptySetIsNotWritten(t *testing.T) {
	t.Parallel()
	f := newProtectedOld(t, 3, 0)
	for _, size := range []int32{4, 2} {
		f.md.Spec.Replicas = &size
		f.update(t)
		for range 3 {
			if err := f.reconcile(t); err != nil {
				t.Fatal(err)
			}
		}
		if f.get(t, f.current); *f.current.Spec.Replicas != size || f.policy.refusals > 0 {
			t.Errorf("the current MachineSet has %d replicas, want %d; the old one was written %d times", *f.current.Spec.Replicas, size, f.policy.refusals)
		}
	}
}

// TestRefusedRecordDelaysNoStep: the size of the old MachineSet stays for now, and the current one gets its place at once.
func TestRefusedRecordDelaysNoStep(t *testing.T) {
	t.Parallel()
	f := newProtectedStep(t, 0)
	f.refused.Set(f.md.UID, refusal{generation: f.md.Generation, notApplied: errors.New("it is protected")})
	got, err := f.rollOut(t, f.current)
	if f.get(t, f.current); err != nil || *f.current.Spec.Replicas != 1 || f.policy.refusals > 0 {
		t.Errorf("the current MachineSet has %d replicas, %d attempts, error %v", *f.current.Spec.Replicas, f.policy.refusals, err)
	}
	if got.Reason == droverpolicyv1.BlockedReason || !strings.Contains(got.Message, "it is protected") {
		t.Errorf("RollingOut is %+v, want the refusal beside what is awaited", got)
	}
}
