// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// selecting selects the pool, or everything.
func selecting(pool string) *droverpolicyv1.Selector {
	if pool == "" {
		return &droverpolicyv1.Selector{}
	}
	return &droverpolicyv1.Selector{MatchLabels: map[string]droverpolicyv1.LabelText{"pool": droverpolicyv1.LabelText(pool)}}
}

// fixture is a Guard of a Cluster "c" whose namespace a test fills.
type fixture struct {
	*Guard
	store        client.WithWatch
	clock        *clocktesting.FakePassiveClock
	cluster      *clusterv1.Cluster
	state        workload.State
	reachability Reachability
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{
		store: indextest.NewClient(t, server.Client(t)), clock: clocktesting.NewFakePassiveClock(noon), state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}}, reachability: Reachability{Since: noon},
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "c"}},
	}
	s.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	s.Guard = &Guard{
		Reader: s.store, Workload: func(client.ObjectKey) workload.State { return s.state }, Management: func() Reachability { return s.reachability },
		Default: policy.Default(), Clock: s.clock,
	}
	return s
}

func (s *fixture) add(t *testing.T, object client.Object) {
	t.Helper()
	indextest.Create(t, s.store, s.cluster.Namespace, object)
}

// deployment adds a MachineDeployment with one MachineSet of that many healthy Machines.
func (s *fixture) deployment(t *testing.T, name string, n int) (*clusterv1.MachineDeployment, *clusterv1.MachineSet) {
	t.Helper()
	template := clusterv1.MachineTemplateSpec{Spec: testenv.TemplateSpec()}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}},
		Spec:       clusterv1.MachineDeploymentSpec{ClusterName: "c", Replicas: new(int32(n)), Template: template},
	}
	s.add(t, md)
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-set", OwnerReferences: controlledBy(md, "MachineDeployment")},
		Spec:       clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(n)), Template: template},
	}
	s.add(t, set)
	for i := range n {
		s.machine(t, set, fmt.Sprintf("%s-%d", name, i), true)
	}
	return md, set
}

func controlledBy(owner client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind(kind))}
}

func (s *fixture) machine(t *testing.T, set *clusterv1.MachineSet, name string, joined bool) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: controlledBy(set, "MachineSet"), Finalizers: []string{clusterv1.MachineFinalizer}},
		Spec:       testenv.MachineSpec(),
	}
	if joined {
		m.Status.NodeRef.Name = name
	}
	s.add(t, m)
	return m
}

// makeUnhealthy marks a Machine as a health check does.
func (s *fixture) makeUnhealthy(t *testing.T, name string) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := s.store.Get(t.Context(), client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "NodeNotReady"})
	if err := s.store.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *fixture) create(t *testing.T, set *clusterv1.MachineSet, want int) budget.Decision {
	t.Helper()
	decision, err := s.Create(t.Context(), s.cluster, set, want)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func (s *fixture) replace(t *testing.T, set *clusterv1.MachineSet, unhealthy ...*clusterv1.Machine) []string {
	t.Helper()
	choice, err := s.Replace(t.Context(), s.cluster, set, unhealthy)
	if err != nil {
		t.Fatal(err)
	}
	return choice.Allowed
}

func (s *fixture) policy(t *testing.T, spec droverpolicyv1.MachinePolicySpec) {
	t.Helper()
	if spec.Selector == nil {
		spec.Selector = selecting("")
	}
	s.add(t, &droverpolicyv1.MachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: spec})
}

func TestGuardBlocks(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(s *fixture, md *clusterv1.MachineDeployment)
		want   string
	}{
		"nothing when all is well": {func(*fixture, *clusterv1.MachineDeployment) {}, ""},
		"everything while frozen":  {func(_ *fixture, md *clusterv1.MachineDeployment) { md.Labels[droverpolicyv1.FrozenLabel] = "true" }, budget.ReasonFrozen},
		"everything when an operator freezes": {func(_ *fixture, md *clusterv1.MachineDeployment) {
			md.Annotations = map[string]string{droverpolicyv1.FreezeAnnotation: "true"}
		}, budget.ReasonFrozen},
		"everything when the annotation drover.io/freeze is invalid": {func(_ *fixture, md *clusterv1.MachineDeployment) {
			md.Annotations = map[string]string{droverpolicyv1.FreezeAnnotation: "yes"}
		}, budget.ReasonFrozen},
		"everything when the annotation drover.io/freeze is empty": {func(_ *fixture, md *clusterv1.MachineDeployment) {
			md.Annotations = map[string]string{droverpolicyv1.FreezeAnnotation: ""}
		}, budget.ReasonFrozen},
		"everything while the cluster is unreachable": {func(s *fixture, _ *clusterv1.MachineDeployment) { s.state = workload.State{} }, budget.ReasonUnreachable},
		"everything while management is unreachable":  {func(s *fixture, _ *clusterv1.MachineDeployment) { s.reachability = Reachability{} }, budget.ReasonUnreachable},
		"everything from the first probe that the cluster leaves unanswered": {func(s *fixture, _ *clusterv1.MachineDeployment) {
			s.state.ConsecutiveFailures, s.state.Message = 1, "no answer"
		}, budget.ReasonUnreachable},
		"everything from the first probe that management leaves unanswered": {func(s *fixture, _ *clusterv1.MachineDeployment) {
			s.reachability = s.reachability.Probed(false, noon, time.Minute)
		}, budget.ReasonUnreachable},
		"nothing before the first connection": {func(s *fixture, _ *clusterv1.MachineDeployment) {
			s.state, s.cluster.Status = workload.State{}, clusterv1.ClusterStatus{}
		}, ""},
		"nothing when an operator ends the freeze": {func(_ *fixture, md *clusterv1.MachineDeployment) {
			md.Labels[droverpolicyv1.FrozenLabel], md.Annotations = "true", map[string]string{droverpolicyv1.FreezeAnnotation: "false"}
		}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			md, set := s.deployment(t, "a", 3)
			test.change(s, md)
			if err := s.store.Update(t.Context(), md); err != nil {
				t.Fatal(err)
			}
			decision := s.create(t, set, 1)
			allowed := s.replace(t, set, s.makeUnhealthy(t, "a-0"))
			if test.want == "" {
				if decision.Allowed != 1 {
					t.Errorf("creates %d, refusal %v", decision.Allowed, decision.Refusal)
				}
				return
			}
			if decision.Allowed != 0 || decision.Refusal.Reason != test.want || len(allowed) > 0 {
				t.Errorf("creates %d, refusal %v, replaces %v", decision.Allowed, decision.Refusal, allowed)
			}
		})
	}
}

func TestGuardReplaces(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, set := s.deployment(t, "a", 6)
	first, second := s.makeUnhealthy(t, "a-0"), s.makeUnhealthy(t, "a-1")
	if diff := cmp.Diff([]string{"a-0"}, s.replace(t, set, first, second)); diff != "" {
		t.Fatalf("the first (-want +got):\n%s", diff)
	}
	if got := s.replace(t, set, second); got != nil {
		t.Errorf("replaces %v although the cache does not show the deletion of the first yet", got)
	}
	if diff := cmp.Diff([]string{"a-0"}, s.replace(t, set, first, second)); diff != "" {
		t.Errorf("asked again after a deletion that failed (-want +got):\n%s", diff)
	}
	if err := s.store.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(noon.Add(time.Hour))
	if got := s.replace(t, set, second); got != nil {
		t.Errorf("replaces %v while the first is being deleted", got)
	}
}

// TestGuardCountsUnfilledReplacements has a MachineSet whose last unhealthy Machine is gone and has no replacement yet.
func TestGuardCountsUnfilledReplacements(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		vacantIn string
		want     []string
	}{
		"of the set itself":                {vacantIn: "a"},
		"of another set of the Cluster":    {vacantIn: "b"},
		"and none where there are no such": {want: []string{"a-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.policy(t, droverpolicyv1.MachinePolicySpec{Replacement: droverpolicyv1.ReplacementBudget{MaxPerDeployment: new(intstr.FromInt32(1)), MaxPerCluster: new(intstr.FromInt32(1))}})
			_, a := s.deployment(t, "a", 5)
			_, b := s.deployment(t, "b", 5)
			if set := map[string]*clusterv1.MachineSet{"a": a, "b": b}[test.vacantIn]; set != nil {
				health.SetInFlightReplacements(set, []health.InFlightReplacement{{Machine: "gone", Attempt: 1, Newest: metav1.NewTime(noon)}})
				if err := s.store.Update(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, s.replace(t, a, s.makeUnhealthy(t, "a-0"))); diff != "" {
				t.Errorf("replaces (-want +got):\n%s", diff)
			}
		})
	}
}

// serialReader fails the test when two decisions look at the Machines at the same time.
type serialReader struct {
	client.Reader
	t          *testing.T
	concurrent atomic.Int32
}

func (a *serialReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*clusterv1.MachineList); !is {
		return a.Reader.List(ctx, list, options...)
	}
	if a.concurrent.Add(1) > 1 {
		a.t.Error("two decisions about one Cluster are made at once")
	}
	defer a.concurrent.Add(-1)
	for range 1000 {
		goruntime.Gosched()
	}
	return a.Reader.List(ctx, list, options...)
}

// TestGuardSerializesDecisions has many MachineSets decide at once.
func TestGuardSerializesDecisions(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.policy(t, droverpolicyv1.MachinePolicySpec{Replacement: droverpolicyv1.ReplacementBudget{
		MaxPerCluster: new(intstr.FromInt32(2)), StopAboveUnhealthy: new(intstr.FromString("100%")),
	}})
	sets, sick := map[string]*clusterv1.MachineSet{}, map[string]*clusterv1.Machine{}
	for i := range 8 {
		name := string(rune('a' + i))
		_, sets[name] = s.deployment(t, name, 2)
		sick[name] = s.makeUnhealthy(t, name+"-0")
	}
	s.Reader = &serialReader{Reader: s.store, t: t}
	var mu sync.Mutex
	var allowed []string
	var asking sync.WaitGroup
	for name, set := range sets {
		asking.Go(func() {
			choice, err := s.Replace(t.Context(), s.cluster, set, []*clusterv1.Machine{sick[name]})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			allowed = append(allowed, choice.Allowed...)
		})
	}
	asking.Wait()
	if len(allowed) != 2 {
		t.Errorf("replaces %v, want 2 of them", allowed)
	}
}

func TestGuardCountsUnseenCreations(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.policy(t, droverpolicyv1.MachinePolicySpec{Creation: droverpolicyv1.CreationLimits{MaxPendingPerCluster: new(int32(3))}})
	_, a := s.deployment(t, "a", 1)
	_, b := s.deployment(t, "b", 1)
	if got := s.create(t, a, 2); got.Allowed != 2 {
		t.Fatalf("creates %d, refusal %v", got.Allowed, got.Refusal)
	}
	if got := s.create(t, b, 2); got.Allowed != 1 || got.Refusal == nil {
		t.Fatalf("creates %d beside 2 that are not seen yet, at most 3 may be pending", got.Allowed)
	}
	s.machine(t, a, "a-new", false)
	s.machine(t, b, "b-new", false)
	if got := s.create(t, b, 2); got.Allowed != 0 {
		t.Errorf("creates %d beside 2 that are seen and 1 that is not", got.Allowed)
	}
	s.clock.SetTime(noon.Add(2 * reservationTTL))
	if got := s.create(t, b, 2); got.Allowed != 1 {
		t.Errorf("creates %d, although one was allowed and never came", got.Allowed)
	}
}

func TestGuardFindsThePolicy(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	md, _ := s.deployment(t, "a", 1)
	other, _ := s.deployment(t, "b", 1)
	s.policy(t, droverpolicyv1.MachinePolicySpec{Selector: selecting("a"), Drain: droverpolicyv1.DrainPolicy{SerialVolumes: new(true)}})
	var got []string
	other.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(4))
	for _, owner := range []client.Object{md, other, nil} {
		settings, err := s.PolicyFor(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, settings.Name)
		if want := map[bool]policy.IntOrPercent{true: policy.Number(4), false: policy.Percent(10)}[owner == other]; settings.PerOwner != want {
			t.Errorf("the budget of a policy named %q is %s, want %s", settings.Name, settings.PerOwner, want)
		}
		if settings.SerialVolumes != (settings.Name == "policy") {
			t.Errorf("policy %q has serial volumes %t", settings.Name, settings.SerialVolumes)
		}
	}
	if diff := cmp.Diff([]string{"policy", "", ""}, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

// TestForeignPolicyIsNotInForce has a policy that selects everything, and is labelled for another manager.
func TestForeignPolicyIsNotInForce(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"own": "policy", "theirs": "", "": ""} {
		t.Run("labelled "+label, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.Watch = "own"
			md, _ := s.deployment(t, "a", 1)
			policy := &droverpolicyv1.MachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: droverpolicyv1.MachinePolicySpec{Selector: selecting("")}}
			if label != "" {
				policy.Labels = map[string]string{clusterv1.WatchLabel: label}
			}
			s.add(t, policy)
			if got, err := s.PolicyFor(t.Context(), md); err != nil || got.Name != want {
				t.Errorf("policy %q is in force (%v), want %q", got.Name, err, want)
			}
		})
	}
}

func TestObserveMachine(t *testing.T) {
	t.Parallel()
	notReady := func(m *clusterv1.Machine, status metav1.ConditionStatus) {
		m.Status.NodeRef.Name = "n"
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: status, Reason: "x"})
	}
	tests := map[string]struct {
		change func(*clusterv1.Machine)
		want   budget.Machine
	}{
		"is pending":                     {func(*clusterv1.Machine) {}, budget.Machine{}},
		"is healthy":                     {func(m *clusterv1.Machine) { notReady(m, metav1.ConditionTrue) }, budget.Machine{Joined: true}},
		"is unhealthy by its Node":       {func(m *clusterv1.Machine) { notReady(m, metav1.ConditionFalse) }, budget.Machine{Joined: true, Unhealthy: true}},
		"is unhealthy without heartbeat": {func(m *clusterv1.Machine) { notReady(m, metav1.ConditionUnknown) }, budget.Machine{Joined: true, Unhealthy: true}},
		"has its failure domain":         {func(m *clusterv1.Machine) { m.Spec.FailureDomain = "x" }, budget.Machine{Domain: "x"}},
		"is rather where it is":          {func(m *clusterv1.Machine) { m.Spec.FailureDomain, m.Status.FailureDomain = "x", "y" }, budget.Machine{Domain: "y"}},
		"is being deleted":               {func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(noon)) }, budget.Machine{Deleting: true}},
		"is unhealthy by a health check": {func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "x"})
		}, budget.Machine{Unhealthy: true}},
		"is a replacement": {func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{}
			health.SetReplacement(m, health.Replacement{Machine: "x", Attempt: 1})
		}, budget.Machine{Proving: true}},
		"is a replacement that has proved itself": {func(m *clusterv1.Machine) {
			health.SetReplacement(m, health.Replacement{Machine: "x", Attempt: 1, Settled: true})
		}, budget.Machine{}},
		"is remediated externally": {func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "x"})
		}, budget.Machine{Proving: true}},
		"is being replaced": {func(m *clusterv1.Machine) {
			m.DeletionTimestamp = new(metav1.NewTime(noon))
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "x"})
		}, budget.Machine{Deleting: true, Unhealthy: true, Replaced: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
			test.change(m)
			test.want.Name, test.want.Owner = "m", "a"
			if diff := cmp.Diff(test.want, observeMachine(m, "a")); diff != "" {
				t.Errorf("Machine (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clusterv1.MachineDeploymentSpec{Replicas: new(int32(10))}}
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("25%"))
	going := md.DeepCopy()
	going.DeletionTimestamp = new(metav1.NewTime(noon))
	got := []int{OwnerOfDeployment(md).Desired, OwnerOfDeployment(md).Surge, OwnerOfDeployment(going).Desired}
	if want := []int{10, 3, 0}; !slices.Equal(want, got) {
		t.Errorf("replicas, surge, and replicas when deleted are %v, want %v", got, want)
	}
}

func TestGuardFreezes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.Period = time.Minute
	md, set := s.deployment(t, "a", 3)
	members := make([]*clusterv1.Machine, 0, 10)
	for i := range 10 {
		members = append(members, s.machine(t, set, fmt.Sprintf("extra-%d", i), false))
	}
	decide := func(n int) (freeze.Decision, bool) {
		t.Helper()
		decision, turned, err := s.Freeze(t.Context(), md, OwnerOfDeployment(md), members[:n])
		if err != nil {
			t.Fatal(err)
		}
		if _, labelled := md.Labels[droverpolicyv1.FrozenLabel]; labelled != decision.Label {
			t.Errorf("the label is there: %t, but should be: %t", labelled, decision.Label)
		}
		decision.SetCondition(md)
		if shown := conditions.IsTrue(md, droverpolicyv1.FrozenCondition); shown != decision.Frozen() || shown != conditions.Has(md, droverpolicyv1.FrozenCondition) {
			t.Errorf("the condition is there: %t, but should be: %t", shown, decision.Frozen())
		}
		return decision, turned
	}
	// 3 replicas, a surge of 1, up 2: more than 6 freeze.
	if decision, turned := decide(7); decision.Frozen() || turned || decision.RequeueAfter != time.Minute {
		t.Fatalf("froze at once: %+v", decision)
	}
	s.clock.SetTime(noon.Add(time.Minute))
	if decision, turned := decide(7); !decision.Frozen() || !turned {
		t.Fatalf("did not freeze after a minute: %+v", decision)
	}
	members[0].DeletionTimestamp = new(metav1.NewTime(noon))
	if decision, turned := decide(7); !decision.Frozen() || turned {
		t.Fatalf("unfrozen at the limit: %+v", decision)
	}
	if decision, turned := decide(6); decision.Frozen() || !turned {
		t.Fatalf("did not end below the limit: %+v", decision)
	}
}

// TestFreezeIsKeptByNewLeader has another process take over: all that it has is what
// is in the API.
func TestFreezeIsKeptByNewLeader(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.Period = 0
	md, set := s.deployment(t, "a", 3)
	var members []*clusterv1.Machine
	for i := range 7 {
		members = append(members, s.machine(t, set, fmt.Sprintf("extra-%d", i), false))
	}
	if decision, _, err := s.Freeze(t.Context(), md, OwnerOfDeployment(md), members); err != nil || !decision.Label {
		t.Fatalf("did not freeze: %+v, %v", decision, err)
	}
	if err := s.store.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	successor := &Guard{
		Reader: s.Reader, Workload: s.Workload, Management: s.Management, Default: s.Default, Period: time.Hour, Clock: s.Clock,
	}
	if decision, changed, err := successor.Freeze(t.Context(), md, OwnerOfDeployment(md), members); err != nil || !decision.Frozen() || changed {
		t.Errorf("the successor ended it: %+v, %v", decision, err)
	}
	decision, err := successor.Create(t.Context(), s.cluster, set, 1)
	if err != nil || decision.Allowed != 0 || decision.Refusal == nil || decision.Refusal.Reason != budget.ReasonFrozen {
		t.Errorf("the successor allows Machines: %+v, %v", decision, err)
	}
}
