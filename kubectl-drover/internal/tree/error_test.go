// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// TestTreeIsWholeOrAnError refuses one list at a time: a tree without some of its Machines would be read as all of them.
func TestTreeIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	c := &clusterv1.Cluster{ObjectMeta: named("c", "", "")}
	md := &clusterv1.MachineDeployment{ObjectMeta: named("md", "", "")}
	md.Spec.ClusterName = "c"
	for refused, ofDeployment := range map[string]bool{"MachineDeploymentList": false, "MachineSetList": true, "MachineList": true} {
		b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if gvk, err := c.GroupVersionKindFor(list); err != nil || gvk.Kind == refused {
				return apierrors.NewForbidden(schema.GroupResource{Resource: refused}, "", errors.New("no rule"))
			}
			return c.List(ctx, list, options...)
		}}, c, md, set("a", "md", 1), machine("a-0", "a"))}
		if item, err := b.Cluster(t.Context(), client.ObjectKeyFromObject(c)); !object.IsForbidden(err) || item != nil {
			t.Errorf("the Cluster without %s: %+v, error %v", refused, item, err)
		}
		if item, err := b.Deployment(t.Context(), client.ObjectKeyFromObject(md)); object.IsForbidden(err) != ofDeployment {
			t.Errorf("the MachineDeployment without %s: %+v, error %v", refused, item, err)
		}
	}
	b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{}, c, md)}
	none := client.ObjectKey{Namespace: "n", Name: "none"}
	for kind, tree := range map[string]func() (*Item, error){
		"Cluster":           func() (*Item, error) { return b.Cluster(t.Context(), none) },
		"MachineDeployment": func() (*Item, error) { return b.Deployment(t.Context(), none) },
		"Machine":           func() (*Item, error) { return b.Machine(t.Context(), none, nil) },
	} {
		if item, err := tree(); !object.IsNotFound(err) || item != nil {
			t.Errorf("%s: %+v, error %v", kind, item, err)
		}
	}
}

// TestHistoryIsOfMachineSetsWithoutMachines has one that is scaled to zero, one that waits for its first Machine, and one whose last
// Machine is being deleted.
func TestHistoryIsOfMachineSetsWithoutMachines(t *testing.T) {
	t.Parallel()
	md := &clusterv1.MachineDeployment{ObjectMeta: named("md", "", "")}
	md.Spec.ClusterName = "c"
	current := set("b-new", "md", 2)
	current.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7"}
	current.Status.ReadyReplicas = new(int32(1))
	b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{}, md, current, set("a-old", "md", 0), set("c-last", "md", 0), machine("c-last-0", "c-last"))}
	for history, want := range map[bool]string{false: "b-new c-last", true: "a-old b-new c-last"} {
		b.History = history
		item, err := b.Deployment(t.Context(), client.ObjectKeyFromObject(md))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, child := range item.Children {
			names = append(names, child.Names[0])
			if child.Names[0] == "b-new" && child.State != "revision 7, 1 of 2 replicas ready" {
				t.Errorf("state %q", child.State)
			}
		}
		if strings.Join(names, " ") != want {
			t.Errorf("with the history %t: %q", history, names)
		}
	}
}

// TestObjectsOfOtherProvidersAreShown has a Machine of a cloud and a bootstrap provider of other projects: one whose kind is not
// installed, and one whose reasons are not known.
func TestObjectsOfOtherProvidersAreShown(t *testing.T) {
	t.Parallel()
	m := machine("m", "s")
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.example.org", Kind: "ExampleConfig", Name: "b"}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
	infra := &infrav1.SimMachine{ObjectMeta: named("i", "", "")}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"ready":             {[]metav1.Condition{{Type: "Ready", Status: "True", Reason: infrav1.InstanceRunningReason}}, "SimMachine i  InstanceRunning"},
		"of unknown reason": {[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Novel", Message: "m"}}, "condition Ready  Ready False Novel: m"},
		"of unknown type":   {[]metav1.Condition{{Type: "Novel", Status: "False", Reason: "Novel"}}, "└─ SimMachine i\n"},
		"of no status":      {[]metav1.Condition{{Type: "Ready", Reason: "Novel"}}, "condition Ready  Ready  Novel"},
	} {
		i := infra.DeepCopy()
		i.Status.Conditions = test.conditions
		b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{}, m, i)}
		item, err := b.Machine(t.Context(), client.ObjectKeyFromObject(m), nil)
		if err != nil {
			t.Fatal(err)
		}
		text := item.Text(noon, false)
		if !strings.Contains(text, test.want) || !strings.Contains(text, `ExampleConfig b  not well: no matches for kind "ExampleConfig" in group "bootstrap.example.org"`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestWellIsOfTheWholeTree has a problem at each depth.
func TestWellIsOfTheWholeTree(t *testing.T) {
	t.Parallel()
	leaf := &Item{Kind: "Machine", Names: []string{"m"}}
	middle := &Item{Kind: "MachineSet", Names: []string{"s"}, Children: []*Item{{Kind: "Machine", Names: []string{"n"}}, leaf}}
	root := &Item{Kind: "Cluster", Names: []string{"c"}, Children: []*Item{middle}}
	if !root.Well() {
		t.Error("a tree without a problem is not well")
	}
	for _, item := range []*Item{leaf, middle, root} {
		item.Problem = &Problem{Message: "x"}
		if root.Well() {
			t.Errorf("a problem of %s is not seen", item.Kind)
		}
		item.Problem = nil
	}
}

// TestTreeAsJSON has what a program reads: the names of all, the condition, and no fields that are empty.
func TestTreeAsJSON(t *testing.T) {
	t.Parallel()
	g := &group{}
	for _, name := range []string{"m-2", "m-1"} {
		m := machine(name, "s")
		m.Status.Phase = "Provisioning"
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineBootstrapConfigReadyCondition, Status: "False", Reason: bootstrapv1.ClusterUnreachableReason, Message: "a\nb", LastTransitionTime: ago(time.Hour),
		}}
		g.add(m)
	}
	content, err := json.Marshal(&Item{Kind: "Cluster", Names: []string{"c"}, Children: g.sorted()})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"Cluster","names":["c"],"children":[{"kind":"Machine","names":["m-1","m-2"],"state":"Provisioning",` +
		`"problem":{"condition":"BootstrapConfigReady","status":"False","reason":"ClusterUnreachable","message":"a; b","since":"2026-03-01T11:00:00Z"}}]}`
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// TestTitlesOfGroups has the names that a line has, by how many there are.
func TestTitlesOfGroups(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		names   string
		problem bool
		all     bool
		want    string
	}{
		{"a", false, false, "Machine a"},
		{"a", true, true, "Machine a"},
		{"a b", false, false, "2 Machines"},
		{"a b", true, false, "2 Machines (a, b)"},
		{"a b c", true, false, "3 Machines (a, b, c)"},
		{"a b c d", true, false, "4 Machines (a, b, c and 1 more)"},
		{"a b c d", true, true, "4 Machines (a, b, c, d)"},
		{"a b", false, true, "2 Machines (a, b)"},
	} {
		item := &Item{Kind: "Machine", Names: strings.Fields(test.names)}
		if test.problem {
			item.Problem = &Problem{}
		}
		if got := item.title(test.all); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
