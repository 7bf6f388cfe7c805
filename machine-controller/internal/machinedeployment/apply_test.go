// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
)

// hold keeps a MachineSet that is being deleted.
const hold = "drover.test/hold"

// occupiedName is a MachineSet under the name of an attempt.
func occupiedName(md *clusterv1.MachineDeployment, attempt int, change func(*clusterv1.MachineSet)) *clusterv1.MachineSet {
	set := newSet(&state{deployment: md}, revision.NewMachineSetName(md, begun, attempt), 1)
	change(set)
	return set
}

// TestCreateSetRetriesOccupiedNames has objects with the names that the new MachineSet would have: what is its
// own from an earlier reconcile is found again, and what another owner has is passed over.
func TestCreateSetRetriesOccupiedNames(t *testing.T) {
	t.Parallel()
	api := server.Client(t)
	own := func(*clusterv1.MachineSet) {}
	others := func(set *clusterv1.MachineSet) { set.OwnerReferences[0].UID = "other" }
	of := func(template string) func(*clusterv1.MachineSet) {
		return func(set *clusterv1.MachineSet) { set.Spec.Template.Spec.Version = template }
	}
	dying := func(set *clusterv1.MachineSet) { set.Finalizers = []string{hold} }
	for name, test := range map[string]struct {
		taken []func(*clusterv1.MachineSet)
		want  int // MachineSets in the end
		fails bool
	}{
		"it takes the first name":                  {nil, 1, false},
		"it finds what it made before":             {[]func(*clusterv1.MachineSet){own}, 1, false},
		"it passes over what another owner has":    {[]func(*clusterv1.MachineSet){others}, 2, false},
		"it passes over what has another template": {[]func(*clusterv1.MachineSet){of("v1.36.0")}, 2, false},
		"it passes over what is being deleted":     {[]func(*clusterv1.MachineSet){dying}, 2, false},
		"it finds its own behind another":          {[]func(*clusterv1.MachineSet){others, own}, 2, false},
		"it gives up where every name is taken":    {[]func(*clusterv1.MachineSet){others, others, others, others, others}, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.Namespace = server.Namespace(t)
			for attempt, change := range test.taken {
				set := occupiedName(md, attempt, change)
				if err := api.Create(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(set.Finalizers, hold) {
					continue
				}
				if err := api.Delete(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			clock := clocktesting.NewFakePassiveClock(begun)
			r := &Reconciler{Client: api, Live: api, Events: events.NewFakeRecorder(9), Clock: clock, tracker: &expectation.Tracker{Clock: clock}}
			for range 2 { // a second reconcile, of a cache that shows nothing yet, makes no other
				err := r.createSet(t.Context(), &state{deployment: md}, rollout.Action{Kind: rollout.CreateCurrent, To: 1})
				if (err != nil) != test.fails {
					t.Fatalf("error %v", err)
				}
			}
			list := &clusterv1.MachineSetList{}
			if err := api.List(t.Context(), list, client.InNamespace(md.Namespace)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, len(list.Items)); diff != "" {
				t.Errorf("MachineSets: %s", diff)
			}
		})
	}
}

// TestStoredNamingTemplateIsReported gives the controller a template that the API server would refuse now.
func TestStoredNamingTemplateIsReported(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Spec.MachineNaming.Template = "pet"
	s := &state{deployment: md}
	r := &Reconciler{Clock: clocktesting.NewFakePassiveClock(begun)}
	if err := r.createSet(t.Context(), s, rollout.Action{Kind: rollout.CreateCurrent, To: 1}); err != nil {
		t.Errorf("got %v, but a retry cannot help", err)
	}
	md.Status.AvailableReplicas = new(int32(0))
	setAvailable(s)
	if message := conditions.GetMessage(md, clusterv1.MachineDeploymentAvailableCondition); !strings.Contains(message, "spec.machineNaming.template") || !strings.Contains(message, "{{ .random }}") {
		t.Errorf("the condition is %q", message)
	}
	set := newSet(s, revision.NewMachineSetName(md, begun, 0), 1)
	if set.Spec.MachineNaming.Template != "" {
		t.Error("a MachineSet is given what the API server refuses")
	}
}
