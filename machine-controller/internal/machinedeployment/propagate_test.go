// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/testenv"
)

type stringMap = map[string]string

// deployment is "md" of the Cluster "c", with something in every field that is carried.
func deployment() *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "md", UID: "md-uid",
		Annotations: stringMap{
			"carried": "1", clusterv1.RevisionAnnotation: "7", revision.HistoryLimitAnnotation: "2", clusterv1.DesiredReplicasAnnotation: "9",
			clusterv1.MaxReplicasAnnotation: "9", clusterv1.DisableMachineCreateAnnotation: "true", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		},
	}}
	md.Spec.ClusterName, md.Spec.Template.Spec, md.Spec.Replicas = "c", testenv.TemplateSpec(), new(int32(3))
	md.Spec.Selector.MatchLabels = stringMap{"pool": "a"}
	md.Spec.Template.Labels, md.Spec.Template.Annotations = stringMap{"l": "1"}, stringMap{"a": "1"}
	md.Spec.Template.Spec.Version = "v1.36.2"
	md.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	md.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	md.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationAlways}}
	md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(6))
	md.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
	md.Spec.MachineNaming.Template = "{{ .random }}"
	return md
}

// setOfRevision is a MachineSet of an earlier revision, with that version.
func setOfRevision(revision, version string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-" + revision, Annotations: stringMap{clusterv1.RevisionAnnotation: revision}}}
	set.Spec.Template = *deployment().Spec.Template.DeepCopy()
	set.Spec.Template.Labels = propagatedLabels("hash")
	set.Spec.Template.Spec.Version = version
	return set
}

// propagatedLabels are the labels of every MachineSet of deployment, with that hash.
func propagatedLabels(hash string) stringMap {
	return stringMap{
		"l": "1", "pool": "a", clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineDeploymentUniqueLabel: hash,
	}
}

// TestSupersededSetsAreUpdatedInPlace edits taints and labels during a rollout: the Nodes that are left of the
// old template have them as well, and the old MachineSet keeps its template and its revision.
func TestSupersededSetsAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	md := selecting()
	old, current := setOf(md, "old", "v1.36.1"), setOf(md, "current", "v1.36.2")
	r := reconcilerWith(t, interceptor.Funcs{}, md, old, current)
	r.writes = &expectation.Writes{Clock: r.Clock}
	s := &state{deployment: md, sets: []*clusterv1.MachineSet{old, current}}
	if err := r.propagateToSets(t.Context(), s); err != nil || s.notPropagated != nil {
		t.Fatal(err, s.notPropagated)
	}
	for set, want := range map[*clusterv1.MachineSet]stringMap{
		old: {"version": "v1.36.1", "revision": "6"}, current: {"version": "v1.36.2", "revision": "7"},
	} {
		r.get(t, set)
		if got := (stringMap{"version": set.Spec.Template.Spec.Version, "revision": set.Annotations[clusterv1.RevisionAnnotation]}); !cmp.Equal(got, want) {
			t.Errorf("MachineSet %q: %v, want %v", set.Name, got, want)
		}
		if diff := cmp.Diff(md.Spec.Template.Spec.Taints, set.Spec.Template.Spec.Taints); diff != "" || set.Spec.Template.Labels["l"] != "1" || *set.Spec.Template.Spec.MinReadySeconds != 5 {
			t.Errorf("MachineSet %q: %+v %s", set.Name, set.Spec.Template, diff)
		}
	}
}

// TestSetKeepsSelectingItsMachines has a deployment whose selector was changed before there was a rule against it.
func TestSetKeepsSelectingItsMachines(t *testing.T) {
	t.Parallel()
	md := selecting()
	current := setOf(md, "current", "v1.36.2")
	r := reconcilerWith(t, interceptor.Funcs{}, md, current)
	r.writes = &expectation.Writes{Clock: r.Clock}
	md.Spec.Selector.MatchLabels, md.Spec.Template.Labels = stringMap{"pool": "b"}, stringMap{"pool": "b"}
	s := &state{deployment: md, sets: []*clusterv1.MachineSet{current}}
	if err := r.propagateToSets(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if s.notPropagated == nil || !strings.Contains(s.notPropagated.Error(), "spec.selector") {
		t.Errorf("the error is %v", s.notPropagated)
	}
	r.get(t, current)
	if current.Spec.Template.Labels["pool"] != "a" || current.Spec.Deletion.Order != md.Spec.Deletion.Order {
		t.Errorf("the set's labels are %v, its order is %q", current.Spec.Template.Labels, current.Spec.Deletion.Order)
	}
}

// setOf is a MachineSet of the deployment's, of revision 6, to which nothing was propagated yet.
func setOf(md *clusterv1.MachineDeployment, name, version string) *clusterv1.MachineSet {
	set := setOfRevision("6", version)
	set.Name, set.Spec.ClusterName = name, md.Spec.ClusterName
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	set.Spec.Selector.MatchLabels = stringMap{"pool": "a"}
	set.Spec.Template.Labels = stringMap{"pool": "a", clusterv1.ClusterNameLabel: "c"}
	set.Spec.Template.Spec.Taints, set.Spec.Template.Spec.MinReadySeconds = nil, nil
	return set
}

// TestRevisionBeginsWithItsSet edits a template: only when its MachineSet can be created are the Nodes of outdated revisions.
func TestRevisionBeginsWithItsSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*state)
		want   string
	}{
		"at once":                 {func(*state) {}, "7"},
		"not while spec.paused":   {func(s *state) { s.deployment.Spec.Paused = new(true) }, "6"},
		"not while it is blocked": {func(s *state) { s.rolloutBlocked = "no template" }, "6"},
		"even if a rollout that has begun is blocked": {func(s *state) { s.rolloutBlocked = "unreachable"; s.sets[0].Spec.Template.Spec.Version = "v1.36.2" }, "6"},
		"and a paused rollback is a new one": {func(s *state) {
			s.sets = append(s.sets, setOfRevision("9", "v1.36.3"))
			s.sets[0].Spec.Template.Spec.Version = "v1.36.2"
			s.deployment.Spec.Paused = new(true)
		}, "10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.Annotations[clusterv1.RevisionAnnotation] = "6"
			s := &state{deployment: md, cluster: testenv.Cluster("ns"), sets: []*clusterv1.MachineSet{setOfRevision("6", "v1.36.1")}}
			test.change(s)
			setMetadata(s, epoch)
			if got := md.Annotations[clusterv1.RevisionAnnotation]; got != test.want {
				t.Errorf("revision %s, want %s", got, test.want)
			}
		})
	}
}

func TestNewSet(t *testing.T) {
	t.Parallel()
	md := deployment()
	s := &state{deployment: md, decision: rollout.Decision{SizeAnnotations: rollout.SizeAnnotations{Desired: 3, Max: 4}}}
	got := newSet(s, revision.MachineSetName{Name: "md-hash", Hash: "hash"}, 2)
	want := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "md-hash", Labels: propagatedLabels("hash"), Finalizers: []string{clusterv1.MachineSetFinalizer},
		Annotations: stringMap{"carried": "1", "drover.io/annotations-from-deployment": "carried", clusterv1.RevisionAnnotation: "7", clusterv1.DesiredReplicasAnnotation: "3", clusterv1.MaxReplicasAnnotation: "4"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "md", UID: "md-uid", Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}}
	want.Spec.ClusterName, want.Spec.Replicas = "c", new(int32(2))
	want.Spec.Selector.MatchLabels = stringMap{"pool": "a", clusterv1.MachineDeploymentUniqueLabel: "hash"}
	want.Spec.Template = *md.Spec.Template.DeepCopy()
	want.Spec.Template.Labels = propagatedLabels("hash")
	want.Spec.Deletion.Order, want.Spec.MachineNaming = md.Spec.Deletion.Order, md.Spec.MachineNaming
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(md.Spec.Selector.MatchLabels) != 1 {
		t.Error("the selector of the MachineDeployment was changed")
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given metav1.LabelSelector
		want  string // none is an error
	}{
		"is what the user sets": {metav1.LabelSelector{MatchLabels: stringMap{"x": "1"}}, "x=1"},
		"is the deployment's own labels where the user sets nothing": {
			metav1.LabelSelector{}, "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/deployment-name=md",
		},
		"may be expressions alone": {
			metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpExists}}}, "x",
		},
		"is an error where it cannot be": {
			metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Foo"}}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.Spec.Selector = test.given
			got, err := selector(md)
			if test.want == "" {
				if err == nil {
					t.Errorf("selects %q", got)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Errorf("selects %q, error %v", got, err)
			}
		})
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	const all = math.MaxInt32
	for given, want := range map[string]int32{"": all, "3": 3, "0": 0, "-1": all, "many": all, "99999999999": all, "2.5": all} {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: stringMap{revision.HistoryLimitAnnotation: given}}}
		if got := historyLimit(md); got != want {
			t.Errorf("%q keeps %d, want %d", given, got, want)
		}
	}
	if got := historyLimit(&clusterv1.MachineDeployment{}); got != 0 {
		t.Errorf("without the annotation %d are kept", got)
	}
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		note, shown string
		want        []string
	}{
		"waits while the cache is older":            {"100", "99", []string{"a"}}, // as numbers, not as text
		"is satisfied by the write itself":          {"100", "100", nil},
		"is satisfied by a later write":             {"100", "1000", nil},
		"does not wait for what cannot be compared": {"100", "abc", nil},
		"does not wait where nothing was written":   {"", "1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{writes: &expectation.Writes{Clock: clocktesting.NewFakePassiveClock(epoch)}}
			a := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a-uid"}}
			if test.note != "" {
				a.ResourceVersion = test.note
				r.writes.Note(a.DeepCopy())
			}
			a.ResourceVersion = test.shown
			for range 2 {
				if diff := cmp.Diff(test.want, r.unseenSets([]*clusterv1.MachineSet{a})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestSetWithoutAnnotationsGetsItsRevision adopts a MachineSet without annotations whose selector does not match.
func TestSetWithoutAnnotationsGetsItsRevision(t *testing.T) {
	t.Parallel()
	md := selecting()
	set := setOf(md, "adopted", "v1.36.2")
	set.Annotations, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels = nil, stringMap{"own": "1"}, stringMap{"own": "1"}
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
	r.setUp()
	s := &state{deployment: md, sets: []*clusterv1.MachineSet{set}}
	if err := r.propagateToSets(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := s.sets[0].Annotations[clusterv1.RevisionAnnotation]; got != "7" {
		t.Errorf("revision %q", got)
	}
}
