// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/logtest"
)

// logged returns what a function logs at level 0, without the namespace of the test.
func logged(t *testing.T, namespace string, do func(ctx context.Context)) []string {
	t.Helper()
	recorder := &logtest.TextRecorder{}
	do(recorder.Context(t.Context()))
	var got []string
	for _, line := range recorder.Take() {
		got = append(got, strings.ReplaceAll(line, namespace, "ns"))
	}
	return got
}

func TestEveryIntentIsOneLine(t *testing.T) {
	t.Parallel()
	const set = `MachineSet=ns/old`
	for name, test := range map[string]struct {
		action rollout.Action
		want   []string
	}{
		"a change of size":   {rollout.Action{Kind: rollout.Scale, From: 3, To: 2, Reason: "r"}, []string{`scaled MachineSet ` + set + ` reason=r previousReplicas=3 replicas=2`}},
		"creation disabled":  {rollout.Action{Kind: rollout.DisableCreate, Reason: "r"}, []string{`disabled creation of Machines by MachineSet ` + set + ` reason=r`}},
		"creation enabled":   {rollout.Action{Kind: rollout.EnableCreate, Reason: "r"}, []string{`enabled creation of Machines by MachineSet ` + set + ` reason=r`}},
		"a deletion":         {rollout.Action{Kind: rollout.Delete, Reason: "r"}, []string{`deleted MachineSet ` + set + ` reason=r`}},
		"no line for a mark": {rollout.Action{Kind: rollout.Record, Reason: "r"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			old := setOf(md, "old", "v1.36.1")
			r := reconcilerWith(t, interceptor.Funcs{}, md, old)
			r.writes, r.tracker = &expectation.Writes{Clock: r.Clock}, &expectation.Tracker{Clock: r.Clock}
			s := &state{deployment: md, sets: []*clusterv1.MachineSet{old}, decision: rollout.Decision{SizeAnnotations: rollout.SizeAnnotations{Desired: 3, Max: 4}}}
			test.action.Set = old.Name
			got := logged(t, md.Namespace, func(ctx context.Context) {
				if err := r.apply(ctx, s, test.action); err != nil {
					t.Error(err)
				}
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			old.ResourceVersion = "1" // what a conflict refuses is not logged
			if got := logged(t, md.Namespace, func(ctx context.Context) { _ = r.apply(ctx, s, test.action) }); len(got) > 0 {
				t.Errorf("a conflict logs %q", got)
			}
		})
	}
}

func TestCreationOfAMachineSetIsLogged(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Annotations[clusterv1.RevisionAnnotation] = "7"
	r := reconcilerWith(t, interceptor.Funcs{}, md)
	r.tracker = &expectation.Tracker{Clock: r.Clock}
	s := &state{deployment: md}
	name := revision.NewMachineSetName(md, r.Clock.Now(), 0).Name
	want := []string{`created MachineSet MachineSet=ns/` + name + ` replicas=2 revision=7 reason=r`}
	create := func(ctx context.Context) {
		if err := r.apply(ctx, s, rollout.Action{Kind: rollout.CreateCurrent, To: 2, Reason: "r"}); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, logged(t, md.Namespace, create)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := logged(t, md.Namespace, create); len(got) > 0 {
		t.Errorf("a MachineSet that exists is logged: %q", got)
	}
}

func TestPropagationIsLogged(t *testing.T) {
	t.Parallel()
	md := selecting()
	old, current := setOf(md, "old", "v1.36.1"), setOf(md, "current", "v1.36.2")
	r := reconcilerWith(t, interceptor.Funcs{}, md, old, current)
	r.writes = &expectation.Writes{Clock: r.Clock}
	s := &state{deployment: md, sets: []*clusterv1.MachineSet{old, current}}
	propagate := func(ctx context.Context) {
		if err := r.propagateToSets(ctx, s); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		`changed revision of MachineSet MachineSet=ns/current previousRevision=6 revision=7`,
		`updated MachineSet in place MachineSet=ns/old`,
	}
	if diff := cmp.Diff(want, logged(t, md.Namespace, propagate)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := logged(t, md.Namespace, propagate); len(got) > 0 {
		t.Errorf("a propagation without changes logs %q", got)
	}
}

func TestRollbackIsLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to   string
		want string
	}{
		"a rollback":               {"2", `rolled back MachineDeployment MachineSet=ns/md-2 revision=2 previousRevision=7`},
		"a revision that is gone":  {"4", `rejected rollback of MachineDeployment reason=RevisionNotKept message=drover.io/rollback-to is "4", but what is kept is 2: name one of these, or "previous"`},
		"no line without a demand": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7"}
			if test.to != "" {
				md.Annotations[revision.RollbackAnnotation] = test.to
			}
			r := reconcilerWith(t, interceptor.Funcs{}, md)
			earlier := setOfRevision("2", "v1.36.1")
			earlier.Namespace = md.Namespace
			got := logged(t, md.Namespace, func(ctx context.Context) {
				if err := r.rollBack(ctx, &state{deployment: md, sets: []*clusterv1.MachineSet{earlier}}); err != nil {
					t.Error(err)
				}
			})
			if strings.Join(got, "\n") != test.want {
				t.Errorf("log is %q, want %q", got, test.want)
			}
		})
	}
}

// TestTransitionsAreLogged writes a status in which a rollout and a freeze have begun, and one in which both have ended.
func TestTransitionsAreLogged(t *testing.T) {
	t.Parallel()
	refused := false
	md := selecting()
	md.Annotations[clusterv1.RevisionAnnotation] = "7"
	r := reconcilerWith(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if refused {
				return errors.New("refused")
			}
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	}, md)
	old := setOf(md, "old", "v1.36.1")
	old.Status.Replicas = new(int32(3))
	write := func(frozen bool, sets ...*clusterv1.MachineSet) []string {
		return logged(t, md.Namespace, func(ctx context.Context) {
			r.get(t, md)
			s := &state{deployment: md, cluster: &clusterv1.Cluster{}, sets: sets}
			if frozen {
				s.freeze.Reason, s.freeze.Message = droverpolicyv1.OvershootReason, "too many"
			}
			r.statusWriter = statuswriter.New(r.Client, r.Clock) // it need not wait
			if _, err := r.writeStatus(ctx, md.DeepCopy(), s, nil); (err != nil) != refused {
				t.Error(err)
			}
		})
	}
	refused = true
	if got := write(true, old); len(got) > 0 {
		t.Errorf("a status that is not written logs %q", got)
	}
	refused = false
	want := []string{
		`froze MachineDeployment reason=Overshoot message=too many count=3 replicas=3`,
		`started rollout revision=7 previousRevision=6 replicas=3 count=3`,
	}
	if diff := cmp.Diff(want, write(true, old)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := write(true, old); len(got) > 0 {
		t.Errorf("the same status logs %q", got)
	}
	current := setOf(md, "current", "v1.36.2")
	current.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7"}
	current.Status.Replicas = new(int32(3))
	want = []string{`finished rollout revision=7 replicas=3`, `unfroze MachineDeployment reason=Overshoot count=3 replicas=3`}
	if diff := cmp.Diff(want, write(false, current)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestDeletionIsLogged deletes a MachineDeployment with a MachineSet.
func TestDeletionIsLogged(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	set := setOf(md, "old", "v1.36.1")
	r := reconcilerWith(t, interceptor.Funcs{}, md, set)
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	r.tracker = &expectation.Tracker{Clock: r.Clock}
	finalize := func(sets ...*clusterv1.MachineSet) []string {
		return logged(t, md.Namespace, func(ctx context.Context) {
			r.get(t, md)
			s := &state{deployment: md, cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c"}}, sets: sets}
			if _, err := r.finalize(ctx, md.DeepCopy(), s); err != nil {
				t.Error(err)
			}
		})
	}
	if diff := cmp.Diff([]string{`deleted MachineSet MachineSet=ns/old reason=MachineDeploymentDeleted`}, finalize(set)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`removed finalizer from MachineDeployment reason=NoMachineSetsLeft`}, finalize()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
