// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/logtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// condition is what a test compares of one.
type condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func get(of conditions.Getter, kind string) condition {
	c := conditions.Get(of, kind)
	if c == nil {
		return condition{}
	}
	return condition{c.Status, c.Reason, c.Message}
}

func deletingFor(d time.Duration) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.DeletionTimestamp = new(metav1.NewTime(noon.Add(-d)))
	return m
}

func TestSetScalingDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   ScaleDown
		want condition
	}{
		"it is False with as many as desired":   {ScaleDown{Desired: 2, Current: 2}, condition{"False", clusterv1.NotScalingDownReason, ""}},
		"it is False with fewer":                {ScaleDown{Desired: 3, Current: 2}, condition{"False", clusterv1.NotScalingDownReason, ""}},
		"it is True with more":                  {ScaleDown{Desired: 1, Current: 2}, condition{"True", clusterv1.ScalingDownReason, "Scaling down from 2 to 1 replicas"}},
		"it reports what blocks it":             {ScaleDown{Desired: 1, Current: 2, Blocked: "no claim"}, condition{"True", droverpolicyv1.BlockedReason, "Scaling down from 2 to 1 replicas is blocked because: no claim"}},
		"it reports no block of a complete one": {ScaleDown{Desired: 2, Current: 2, Blocked: "no claim"}, condition{"False", clusterv1.NotScalingDownReason, ""}},
		"it reports slow deletions": {
			ScaleDown{Desired: 1, Current: 3, Machines: []*clusterv1.Machine{deletingFor(16 * time.Minute), deletingFor(15 * time.Minute), {}}},
			condition{"True", clusterv1.ScalingDownReason, "Scaling down from 3 to 1 replicas; 1 Machine has been deleting for more than 15m"},
		},
		"it reports slow deletions alone": {
			ScaleDown{Machines: []*clusterv1.Machine{deletingFor(time.Hour), deletingFor(time.Hour)}},
			condition{"False", clusterv1.NotScalingDownReason, "2 Machines have been deleting for more than 15m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, object := range []Object{&clusterv1.MachineSet{}, &clusterv1.MachineDeployment{}} {
				test.in.Now = noon
				SetScalingDown(object, test.in)
				if diff := cmp.Diff(test.want, get(object, clusterv1.ScalingDownCondition)); diff != "" {
					t.Errorf("%T (-want +got):\n%s", object, diff)
				}
			}
		})
	}
}

func TestSetRemediating(t *testing.T) {
	t.Parallel()
	machine := func(status metav1.ConditionStatus) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: status, Reason: "Test"})
		return m
	}
	set := &clusterv1.MachineSet{}
	SetRemediating(set, []*clusterv1.Machine{{}, machine("True")})
	if got := get(set, clusterv1.RemediatingCondition); got != (condition{"False", clusterv1.NotRemediatingReason, ""}) {
		t.Errorf("without a Machine that is being replaced it is %v", got)
	}
	machines := []*clusterv1.Machine{{}, machine("False"), machine("True"), machine("False")}
	SetRemediating(set, machines)
	if got := get(set, clusterv1.RemediatingCondition); got != (condition{"True", clusterv1.RemediatingReason, ""}) || CountRemediating(machines) != 2 {
		t.Errorf("with two such Machines it is %v, and %d are counted", got, CountRemediating(machines))
	}
}

func TestSetDeleting(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{}
	SetDeleting(set, "2 Machines", errors.New("another manager's"))
	if got := get(set, clusterv1.DeletingCondition); got != (condition{"False", clusterv1.NotDeletingReason, ""}) {
		t.Errorf("of a set that is not being deleted it is %v", got)
	}
	set.DeletionTimestamp = new(metav1.NewTime(noon))
	SetDeleting(set, "2 Machines", nil)
	if got := get(set, clusterv1.DeletingCondition); got != (condition{"True", clusterv1.DeletingReason, "Deleting 2 Machines"}) {
		t.Errorf("of a set that is being deleted it is %v", got)
	}
	SetDeleting(set, "2 Machines", errors.New("another manager's"))
	if got := get(set, clusterv1.DeletingCondition); got != (condition{"True", droverpolicyv1.BlockedReason, "Deleting 2 Machines: another manager's"}) {
		t.Errorf("of a set that cannot be deleted it is %v", got)
	}
}

func TestSetClusterMissing(t *testing.T) {
	t.Parallel()
	for kind, object := range map[string]Object{"MachineSet": &clusterv1.MachineSet{}, "MachineDeployment": &clusterv1.MachineDeployment{}} {
		SetClusterMissing(object, clusterv1.AvailableCondition, "Test", "c")
		want := condition{"Unknown", "Test", `Cluster "c" does not exist: create it, or delete this ` + kind}
		if diff := cmp.Diff(want, get(object, clusterv1.AvailableCondition)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c-uid"}}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"own": "1"}, Finalizers: []string{"own"}, OwnerReferences: []metav1.OwnerReference{{Kind: "Other", UID: "other"}},
	}}
	for range 2 { // the second time changes nothing
		SetMetadata(set, clusterv1.MachineSetFinalizer, "c")
		SetClusterOwner(set, cluster)
	}
	want := metav1.ObjectMeta{
		Labels: map[string]string{"own": "1", clusterv1.ClusterNameLabel: "c"}, Finalizers: []string{"own", clusterv1.MachineSetFinalizer},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Other", UID: "other"}, {APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c-uid"}},
	}
	if diff := cmp.Diff(want, set.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	bare := &clusterv1.MachineDeployment{}
	if SetMetadata(bare, clusterv1.MachineDeploymentFinalizer, "c"); bare.Labels[clusterv1.ClusterNameLabel] != "c" {
		t.Errorf("an object without labels gets %v", bare.Labels)
	}
}

func TestUrgent(t *testing.T) {
	t.Parallel()
	count := statuswriter.Counts{Desired: 3, Replicas: 3, Ready: 2, Available: 2, UpToDate: 3}
	complete := statuswriter.Counts{Desired: 3, Replicas: 3, Ready: 3, Available: 3, UpToDate: 3}
	for name, test := range map[string]struct {
		generation bool
		next       statuswriter.Counts
		changed    string
		want       bool
	}{
		"the same can wait":             {next: count},
		"a generation cannot":           {generation: true, next: count, want: true},
		"the last Machine cannot":       {next: complete, want: true},
		"a pause cannot":                {next: count, changed: clusterv1.PausedCondition, want: true},
		"a deletion cannot":             {next: count, changed: clusterv1.DeletingCondition, want: true},
		"a freeze cannot":               {next: count, changed: droverpolicyv1.FrozenCondition, want: true},
		"an invalid annotation cannot":  {next: count, changed: droverpolicyv1.AnnotationsValidCondition, want: true},
		"a condition of its own cannot": {next: count, changed: clusterv1.AvailableCondition, want: true},
		"any other condition can":       {next: count, changed: clusterv1.ScalingUpCondition},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.MachineSet{}, &clusterv1.MachineSet{}
			if test.changed != "" {
				conditions.Set(after, metav1.Condition{Type: test.changed, Status: metav1.ConditionTrue, Reason: "Test"})
			}
			if got := Urgent(test.generation, count, test.next, before, after, clusterv1.AvailableCondition); got != test.want {
				t.Errorf("urgent is %t", got)
			}
		})
	}
}

func TestLogFreeze(t *testing.T) {
	t.Parallel()
	frozen := func(reason string) *clusterv1.MachineSet {
		set := &clusterv1.MachineSet{}
		if reason != "" {
			conditions.Set(set, metav1.Condition{Type: droverpolicyv1.FrozenCondition, Status: metav1.ConditionTrue, Reason: reason, Message: "m"})
		}
		return set
	}
	for name, test := range map[string]struct {
		before, after *clusterv1.MachineSet
		want          []string
	}{
		"it logs nothing while there is none":        {frozen(""), frozen(""), nil},
		"it logs the beginning":                      {frozen(""), frozen("a"), []string{`froze MachineSet reason=a message=m count=7 replicas=3`}},
		"it logs nothing while it lasts":             {frozen("a"), frozen("a"), nil},
		"it logs nothing when its reason is another": {frozen("a"), frozen("b"), nil},
		"it logs the end":                            {frozen("a"), frozen(""), []string{`unfroze MachineSet reason=a count=7 replicas=3`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := &logtest.TextRecorder{}
			LogFreeze(recorder.Logger(), test.before, test.after, 7, 3)
			if diff := cmp.Diff(test.want, recorder.Take()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}
