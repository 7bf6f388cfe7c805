// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// finder reads the given objects at noon.
func finder(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Finder {
	t.Helper()
	return &Finder{Reader: objecttest.Reader(t, funcs, objects...), Now: noon}
}

// old is the metadata of an object of Cluster c that is old enough to count.
func old(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "n", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
	}
}

func clusterWith(conditions ...metav1.Condition) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	c.Status.Conditions = conditions
	return c
}

var claimed = metav1.Condition{Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionTrue}

// machine refers to an infrastructure machine and to a BootstrapConfig.
func machine() *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: old("m")}
	m.Spec.ClusterName, m.Spec.InfrastructureRef.Name, m.Spec.Bootstrap.ConfigRef.Name = "c", "m-infra", "m-config"
	return m
}

// TestOrphanIsWhatNoMachineHas has one infrastructure machine, and one Machine that is not always its own.
func TestOrphanIsWhatNoMachineHas(t *testing.T) {
	t.Parallel()
	owner := func(apiVersion, kind, name, uid string, controls bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: new(controls)}
	}
	const v = "cluster.x-k8s.io/v1beta2"
	for name, test := range map[string]struct {
		name   string
		owners []metav1.OwnerReference
		age    time.Duration
		want   string
	}{
		"is one without an owner":                                        {"x", nil, time.Hour, "no Machine owns it or refers to it"},
		"is one whose Machine does not exist":                            {"x", []metav1.OwnerReference{owner(v, "Machine", "gone", "u", true)}, time.Hour, "its Machine gone does not exist"},
		"is one whose Machine of an older API version does not exist":    {"x", []metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta1", "Machine", "gone", "u", true)}, time.Hour, "its Machine gone does not exist"},
		"is none while it is younger than 20 minutes":                    {"x", nil, 20*time.Minute - time.Second, ""},
		"is one at 20 minutes":                                           {"x", nil, 20 * time.Minute, "no Machine owns it or refers to it"},
		"is none with a Machine by UID":                                  {"x", []metav1.OwnerReference{owner(v, "Machine", "renamed", "uid-of-m", true)}, time.Hour, ""},
		"is none with a Machine by name, as after a restore":             {"x", []metav1.OwnerReference{owner(v, "Machine", "m", "u", true)}, time.Hour, ""},
		"is none with a Machine that owns it and does not control it":    {"x", []metav1.OwnerReference{owner(v, "Machine", "m", "uid-of-m", false)}, time.Hour, ""},
		"is one beside an owner that does not control it":                {"x", []metav1.OwnerReference{owner(v, "Cluster", "c", "u", false)}, time.Hour, "no Machine owns it or refers to it"},
		"is none where a Machine refers to it":                           {"m-infra", nil, time.Hour, ""},
		"is none with the name of a Machine":                             {"m", nil, time.Hour, ""},
		"is none where another project's Machine controls it":            {"x", []metav1.OwnerReference{owner("machine.example.org/v1", "Machine", "gone", "u", true)}, time.Hour, ""},
		"is none where another kind controls it":                         {"x", []metav1.OwnerReference{owner(v, "MachinePool", "gone", "u", true)}, time.Hour, ""},
		"is none where an owner with an unreadable version controls it":  {"x", []metav1.OwnerReference{owner("a/b/c", "Machine", "gone", "u", true)}, time.Hour, ""},
		"is one beside a Machine that is gone and does not control it":   {"x", []metav1.OwnerReference{owner(v, "Machine", "gone", "u", false)}, time.Hour, "no Machine owns it or refers to it"},
		"is none where the Machine that refers to it is of another name": {"m-config", nil, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			infra := &infrav1.SimMachine{ObjectMeta: old(test.name)}
			infra.OwnerReferences, infra.CreationTimestamp = test.owners, metav1.NewTime(noon.Add(-test.age))
			found, err := finder(t, interceptor.Funcs{}, machine(), clusterWith(claimed), infra).Objects(t.Context(), "n")
			why := ""
			for _, o := range found {
				why += o.Why
			}
			if err != nil || why != test.want {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestMachineOfAnotherNamespaceOwnsNothing has a Machine that would own the object by its name, in another namespace.
func TestMachineOfAnotherNamespaceOwnsNothing(t *testing.T) {
	t.Parallel()
	infra := &infrav1.SimMachine{ObjectMeta: old("m-infra")}
	infra.Namespace = "other"
	found, err := finder(t, interceptor.Funcs{}, machine(), infra).Objects(t.Context(), "")
	if err != nil || len(found) != 1 || found[0].Namespace != "other" {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestKeptOrphans has an orphan of each Cluster that is not known to be this management cluster's own.
func TestKeptOrphans(t *testing.T) {
	t.Parallel()
	claim := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: droverpolicyv1.ManagementClaimedCondition, Status: status}
	}
	paused := clusterWith(claimed)
	paused.Spec.Paused = new(true)
	elsewhere := clusterWith()
	elsewhere.Namespace = "other"
	for name, test := range map[string]struct {
		cluster *clusterv1.Cluster
		change  func(*bootstrapv1.BootstrapConfig)
		want    string
	}{
		"is deleted where the claim is held":          {clusterWith(claimed), nil, ""},
		"is kept where another has the claim":         {clusterWith(claim(metav1.ConditionFalse)), nil, "this management cluster does not have the claim on its Cluster c"},
		"is kept where the claim is not known":        {clusterWith(claim(metav1.ConditionUnknown)), nil, "this management cluster does not have the claim on its Cluster c"},
		"is kept where nothing is known, as restored": {clusterWith(), nil, "this management cluster does not have the claim on its Cluster c"},
		"is kept while its Cluster is paused":         {paused, nil, "its Cluster c is paused"},
		"is kept while it is paused": {clusterWith(claimed), func(b *bootstrapv1.BootstrapConfig) {
			b.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, "it is paused"},
		"is kept while it is deleted": {clusterWith(claimed), func(b *bootstrapv1.BootstrapConfig) {
			b.Finalizers, b.DeletionTimestamp = []string{"a/b"}, new(metav1.NewTime(noon))
		}, "it is being deleted already"},
		"is deleted where its Cluster is gone":          {elsewhere, nil, ""},
		"is deleted where it does not name its Cluster": {paused, func(b *bootstrapv1.BootstrapConfig) { b.Labels = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &bootstrapv1.BootstrapConfig{ObjectMeta: old("x")}
			if test.change != nil {
				test.change(config)
			}
			f := finder(t, interceptor.Funcs{}, test.cluster, config)
			found, err := f.Objects(t.Context(), "n")
			if err != nil || len(found) != 1 || found[0].Kept != test.want {
				t.Fatalf("got %+v, error %v", found, err)
			}
			if err := f.Delete(t.Context(), found[0]); (err == nil) != (test.want == "") {
				t.Errorf("the deletion: %v", err)
			}
			after := f.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)
			if gone := apierrors.IsNotFound(after); gone != (test.want == "") {
				t.Errorf("it is gone: %t, error %v", gone, after)
			}
		})
	}
}

// TestConfirmLeavesOutWhatIsNoOrphanAnyMore has a Machine, a pause and a claim that came after the question.
func TestConfirmLeavesOutWhatIsNoOrphanAnyMore(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, client.Client){
		"a Machine that refers to it": func(t *testing.T, c client.Client) {
			t.Helper()
			m := machine()
			m.Spec.InfrastructureRef.Name = "x"
			if err := c.Create(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		},
		"a pause of its Cluster": func(t *testing.T, c client.Client) {
			t.Helper()
			cluster := clusterWith(claimed)
			cluster.Spec.Paused = new(true)
			if err := c.Create(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		},
		"another object of its name": func(t *testing.T, c client.Client) {
			t.Helper()
			if err := c.Delete(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}}); err != nil {
				t.Fatal(err)
			}
			other := &infrav1.SimMachine{ObjectMeta: old("x")}
			other.UID = "another"
			if err := c.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := &infrav1.SimMachine{ObjectMeta: old("y")}
			y.Labels = nil
			f := finder(t, interceptor.Funcs{}, &infrav1.SimMachine{ObjectMeta: old("x")}, y)
			found, err := f.Objects(t.Context(), "n")
			if err != nil || len(found) != 2 {
				t.Fatalf("got %+v, error %v", found, err)
			}
			change(t, f.Client)
			still, err := f.Confirm(t.Context(), "n", found)
			if err != nil || len(still) != 1 || still[0].Name != "y" {
				t.Errorf("got %+v, error %v", still, err)
			}
		})
	}
}

// TestDeleteNamesWhatWasFound has an object that is written to after it was found, and one that is gone.
func TestDeleteNamesWhatWasFound(t *testing.T) {
	t.Parallel()
	preconditions := map[string]client.Preconditions{}
	f := finder(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
		given := &client.DeleteOptions{}
		given.ApplyOptions(options)
		preconditions[o.GetName()] = client.Preconditions(*given.Preconditions)
		return c.Delete(ctx, o, options...)
	}}, &infrav1.SimMachine{ObjectMeta: old("x")})
	found, err := f.Objects(t.Context(), "n")
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, error %v", found, err)
	}
	if err := f.Delete(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	want := map[string]client.Preconditions{"x": {UID: new(types.UID("uid-of-x")), ResourceVersion: new("999")}}
	if diff := cmp.Diff(want, preconditions); diff != "" {
		t.Errorf("preconditions (-want +got):\n%s", diff)
	}
	if err := f.Delete(t.Context(), found[0]); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestKindsThatAreNotServedAreLeftOut has an API server with one cloud alone.
func TestKindsThatAreNotServedAreLeftOut(t *testing.T) {
	t.Parallel()
	f := finder(t, interceptor.Funcs{}, &infrav1.SimMachine{ObjectMeta: old("x")})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(infrav1.GroupVersion.WithKind("SimMachine"), meta.RESTScopeNamespace)
	f.Mapper = mapper
	kinds, err := f.kinds()
	if err != nil || len(kinds) != 1 || kinds[0].Kind != "SimMachine" {
		t.Errorf("got %v, error %v", kinds, err)
	}
}

// TestNothingIsFoundWithoutAPermission has a user who may not read one of the lists: without the Machines, everything would be
// an orphan.
func TestNothingIsFoundWithoutAPermission(t *testing.T) {
	t.Parallel()
	for kind := range map[string]bool{"MachineList": true, "ClusterList": true, "SimMachineList": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := finder(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if gvk, err := c.GroupVersionKindFor(list); err != nil || gvk.Kind == kind {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", err)
				}
				return c.List(ctx, list, options...)
			}}, &bootstrapv1.BootstrapConfig{ObjectMeta: old("x")})
			if found, err := f.Objects(t.Context(), "n"); !object.IsForbidden(err) || len(found) != 0 {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestReports has events of collectors and of others, in both forms of an event.
func TestReports(t *testing.T) {
	t.Parallel()
	event := func(name, kind, reason string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Reason: reason, Message: "about " + name,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "n", Name: "c"},
		}
	}
	newest, oldest := event("newest", "Cluster", "OrphanDeleted"), event("oldest", "Cluster", "OrphanFound")
	newest.LastTimestamp, oldest.EventTime = metav1.NewTime(noon), metav1.NewMicroTime(noon.Add(-time.Minute))
	f := finder(t, interceptor.Funcs{}, newest, oldest, event("a", "Cluster", "Other"), event("b", "Machine", "OrphanFound"))
	got, err := f.Reports(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Report{
		{"n", "c", "OrphanFound", "about oldest", metav1.NewTime(noon.Add(-time.Minute))},
		{"n", "c", "OrphanDeleted", "about newest", metav1.NewTime(noon)},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}
