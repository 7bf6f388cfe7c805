// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// deployment is rolled out, but for what a test changes.
func deployment(change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{}
	md.Name, md.Generation, md.Status.ObservedGeneration = "web", 2, 2
	md.Spec.Replicas = new(int32(3))
	md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas = new(int32(3)), new(int32(3)), new(int32(3))
	change(md)
	return md
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	condition := func(name string, status metav1.ConditionStatus, message string) func(*clusterv1.MachineDeployment) {
		return func(md *clusterv1.MachineDeployment) {
			md.Status.Conditions = append(md.Status.Conditions, metav1.Condition{Type: name, Status: status, Message: message})
		}
	}
	const counts = "3 of 3 Machines are up to date, 3 available"
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		want   State
	}{
		"is complete": {
			func(*clusterv1.MachineDeployment) {},
			State{Text: "MachineDeployment web is rolled out: " + counts, Complete: true},
		},
		"waits for a rollback that was requested, which changes no generation": {
			func(md *clusterv1.MachineDeployment) {
				md.Annotations = map[string]string{RollbackAnnotation: "previous"}
			},
			State{Text: "Waiting for the template of the earlier revision to be restored"},
		},
		"fails after a rollback that was refused": {
			condition(droverpolicyv1.RolledBackCondition, metav1.ConditionFalse, "no such revision"),
			State{Text: counts + ": no such revision", Failed: true},
		},
		"says that it is paused": {
			condition(clusterv1.PausedCondition, metav1.ConditionTrue, "Cluster spec.paused is set to true"),
			State{Text: counts + ": nothing is done while it is paused: Cluster spec.paused is set to true"},
		},
		"waits for its Machines": {
			func(md *clusterv1.MachineDeployment) { md.Status.AvailableReplicas = new(int32(2)) },
			State{Text: "3 of 3 Machines are up to date, 2 available"},
		},
		"waits for Machines of the older template": {
			func(md *clusterv1.MachineDeployment) { md.Status.Replicas = new(int32(4)) },
			State{Text: counts},
		},
		"is complete with no Machines": {
			func(md *clusterv1.MachineDeployment) {
				md.Spec.Replicas, md.Status = new(int32(0)), clusterv1.MachineDeploymentStatus{ObservedGeneration: 2}
			},
			State{Text: "MachineDeployment web is rolled out: 0 of 0 Machines are up to date, 0 available", Complete: true},
		},
		"waits for the controller": {
			func(md *clusterv1.MachineDeployment) { md.Generation = 3 },
			State{Text: "Waiting for the newest spec to be observed"},
		},
		"is one line of what others wrote": {
			condition(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue, "Rolling out\n* one\x1b[2J"),
			State{Text: counts + `: Rolling out; one\u001b[2J`},
		},
		"has failed when its deadline is over": {
			condition(droverpolicyv1.ProgressingCondition, metav1.ConditionFalse, "No progress for 10m"),
			State{Text: counts + ": No progress for 10m", Failed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, StateOf(deployment(test.change))); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCannotRestore has revisions of which one is current, and had others before.
func TestCannotRestore(t *testing.T) {
	t.Parallel()
	three := []Revision{{Revision: 5, Current: true, same: true, Earlier: []string{"2"}}, {Revision: 4, Earlier: []string{"1", "3"}}, {Revision: 0}}
	for name, test := range map[string]struct {
		revisions []Revision
		to        int64
		want      string
	}{
		"restores the one before":              {three, 0, ""},
		"restores one that is kept":            {three, 4, ""},
		"restores one by its earlier number":   {three, 3, ""},
		"does not restore the current one":     {three, 5, "revision 5 has the current template"},
		"does not restore one that is gone":    {three, 2, "there is no revision 2; kept: 4"},
		"does not restore one that never was":  {three, 13, "MachineDeployment web has never had a revision 13: its newest is 5; kept: 4"},
		"has none to offer instead":            {three[:1], 99, "MachineDeployment web has never had a revision 99: its newest is 5"},
		"restores none without a number":       {three[2:], 0, "MachineDeployment web has no earlier revision: the annotation drover.io/revision-history-limit sets how many are kept"},
		"does not restore one that is deleted": {[]Revision{{Revision: 4, deleting: true}}, 4, "MachineDeployment web has no earlier revision: the annotation drover.io/revision-history-limit sets how many are kept"},
		"has nothing but the current one":      {three[:1], 0, "MachineDeployment web has no earlier revision: the annotation drover.io/revision-history-limit sets how many are kept"},
		"has nothing before the first rollout": {nil, 0, "MachineDeployment web has no earlier revision: the annotation drover.io/revision-history-limit sets how many are kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Revisions{"web", test.revisions}).CannotRestore(test.to); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWithdrawsTemplate has the revisions of rollouts without progress.
func TestWithdrawsTemplate(t *testing.T) {
	t.Parallel()
	current := func(revision int64, earlier ...string) Revision {
		return Revision{Revision: revision, Current: true, same: true, Replicas: 1, Earlier: earlier}
	}
	for name, test := range map[string]struct {
		revisions []Revision
		want      bool
	}{
		"a new template":                               {[]Revision{current(2), {Revision: 1, Replicas: 3}}, true},
		"a new template without a MachineSet":          {[]Revision{{Revision: 1, Replicas: 3}}, true},
		"not a template that was restored":             {[]Revision{current(3, "1"), {Revision: 2, Replicas: 1}}, false},
		"not a restart":                                {[]Revision{current(3), {Revision: 2, same: true, Replicas: 2}, {Revision: 1}}, false},
		"not the second attempt":                       {[]Revision{current(3), {Revision: 2, Replicas: 1}, {Revision: 1, Replicas: 2}}, false},
		"a new template after a rollback that is over": {[]Revision{current(4), {Revision: 3, Replicas: 3, Earlier: []string{"1"}}, {Revision: 2}}, true},
		"not a rollout whose old MachineSet is gone":   {[]Revision{current(2), {Revision: 1, Replicas: 1, deleting: true}}, false},
		"nothing without revisions":                    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Revisions{"web", test.revisions}).WithdrawsTemplate(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestHistoryHasItsOwnRevisions has MachineSets of another MachineDeployment, of none, and of one of the same name that is gone.
func TestHistoryHasItsOwnRevisions(t *testing.T) {
	t.Parallel()
	md := deployment(func(md *clusterv1.MachineDeployment) {
		md.Namespace, md.UID, md.Annotations = "n", "web", map[string]string{clusterv1.RevisionAnnotation: "10"}
	})
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "T", Name: "b"}
	set := func(name, owner, revision string) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision}}}
		if owner != "" {
			s.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "web", UID: types.UID(owner), Controller: new(true)}}
		}
		s.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "T", Name: name}
		return s
	}
	first := set("a", "web", "9")
	first.Annotations[historyAnnotation] = "1,3"
	first.Spec.Template.Spec.Version, first.Status.Replicas = "v1.36.2", new(int32(2))
	first.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "B", Name: "b"}
	reader := objecttest.Reader(t, interceptor.Funcs{}, first, set("b", "web", "10"), set("c", "web-before", "11"), set("d", "", "12"))
	got, err := History(t.Context(), reader, md)
	want := Revisions{"web", []Revision{
		{Revision: 10, MachineSet: "b", Current: true, same: true, Infrastructure: "T/b"},
		{Revision: 9, MachineSet: "a", Replicas: 2, Version: "v1.36.2", Infrastructure: "T/a", Bootstrap: "B/b", Earlier: []string{"1", "3"}},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Revision{})); diff != "" || err != nil {
		t.Errorf("error %v, revisions (-want +got):\n%s", err, diff)
	}
}

// TestTemplateWithoutARevisionIsRolledBack has a new template whose rollout is blocked, as while an object that it names does not
// exist: it has no MachineSet, so the only revision is the one to restore.
func TestTemplateWithoutARevisionIsRolledBack(t *testing.T) {
	t.Parallel()
	template := func(name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "T", Name: name}
	}
	md := deployment(func(md *clusterv1.MachineDeployment) {
		md.Namespace, md.UID, md.Annotations = "n", "web", map[string]string{clusterv1.RevisionAnnotation: "6"}
		md.Spec.Template.Spec.InfrastructureRef = template("misspelt")
	})
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", Annotations: md.Annotations,
		OwnerReferences: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "web", UID: "web", Controller: new(true)}},
	}}
	set.Spec.Template.Spec.InfrastructureRef = template("right")
	got, err := History(t.Context(), objecttest.Reader(t, interceptor.Funcs{}, set), md)
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []int64{0, 6} {
		if problem := got.CannotRestore(revision); problem != "" {
			t.Errorf("revision %d cannot be restored: %s", revision, problem)
		}
	}
	if got.Revisions[0].Current {
		t.Error("a revision with another template counts as the current one")
	}
}

// TestCompareRestarts has a restart in a manifest.
func TestCompareRestarts(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) *clusterv1.MachineDeployment {
		return deployment(func(md *clusterv1.MachineDeployment) {
			md.CreationTimestamp, md.Spec.Rollout.After = metav1.NewTime(created), metav1.NewTime(created.Add(after))
		})
	}
	is := at(time.Hour)
	for name, test := range map[string]struct {
		want     *clusterv1.MachineDeployment
		replaced int32
	}{
		"replaces Machines that are older than another time":         {at(2 * time.Hour), 3},
		"replaces none for the same time":                            {at(time.Hour), 0},
		"replaces none for a time before there was any Machine":      {at(-time.Hour), 0},
		"replaces none where the time is removed from the manifests": {deployment(func(*clusterv1.MachineDeployment) {}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Compare(is, test.want); got.Replaced != test.replaced || len(got.Why) > 0 != (test.replaced > 0) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
