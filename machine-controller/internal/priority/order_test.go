// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine is a Machine that is available and age hours old.
func machine(name string, age int, with ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name, m.UID = name, types.UID("uid-"+name)
	m.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(age) * time.Hour))
	m.Status.NodeRef.Name = "node-" + name
	condition(clusterv1.MachineAvailableCondition, metav1.ConditionTrue)(m)
	for _, change := range with {
		change(m)
	}
	return m
}

func condition(kind string, status metav1.ConditionStatus) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = slices.DeleteFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status})
	}
}

func annotation(key string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Annotations = map[string]string{key: ""} }
}

func deleting(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: epoch} }

func unjoined(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }

func names(machines []*clusterv1.Machine) string {
	var all []string
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return strings.Join(all, " ")
}

func TestOrder(t *testing.T) {
	t.Parallel()
	unavailable := condition(clusterv1.MachineAvailableCondition, metav1.ConditionFalse)
	marked := annotation(clusterv1.DeleteMachineAnnotation)
	for name, test := range map[string]struct {
		machines []*clusterv1.Machine
		policy   clusterv1.MachineSetDeletionOrder
		want     string
	}{
		"it takes the worst first": {
			machines: []*clusterv1.Machine{
				machine("available", 9),
				machine("unavailable", 8, unavailable),
				machine("unhealthy", 7, condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse)),
				machine("unjoined", 6, unjoined, unavailable),
				machine("marked", 5, marked),
				machine("deleting", 4, deleting),
			},
			policy: clusterv1.RandomMachineSetDeletionOrder,
			want:   "deleting marked unjoined unhealthy unavailable available",
		},
		"it takes marked Machines before worse ones, whatever the policy": {
			machines: []*clusterv1.Machine{machine("new", 1, unjoined), machine("marked", 2, marked)},
			policy:   clusterv1.NewestMachineSetDeletionOrder,
			want:     "marked new",
		},
		"it counts marked Machines that are going as going": {
			machines: []*clusterv1.Machine{machine("marked", 1, marked), machine("going", 2, marked, deleting)},
			policy:   clusterv1.NewestMachineSetDeletionOrder,
			want:     "going marked",
		},
		"it takes Machines that failed a health check or are to be remediated": {
			machines: []*clusterv1.Machine{
				machine("well", 9),
				machine("failed", 2, condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)),
				machine("doomed", 1, annotation(clusterv1.RemediateMachineAnnotation)),
			},
			policy: clusterv1.OldestMachineSetDeletionOrder,
			want:   "failed doomed well",
		},
		"it does not take an unknown Node for an unhealthy one": {
			machines: []*clusterv1.Machine{
				machine("known", 2),
				machine("unknown", 1, condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown)),
			},
			policy: clusterv1.OldestMachineSetDeletionOrder,
			want:   "known unknown",
		},
		"it takes the oldest": {
			machines: []*clusterv1.Machine{machine("a", 1), machine("b", 3), machine("c", 2)},
			policy:   clusterv1.OldestMachineSetDeletionOrder,
			want:     "b c a",
		},
		"it takes the newest": {
			machines: []*clusterv1.Machine{machine("a", 1), machine("b", 3), machine("c", 2)},
			policy:   clusterv1.NewestMachineSetDeletionOrder,
			want:     "a c b",
		},
		"it goes by age among those that are not unhealthy": {
			machines: []*clusterv1.Machine{machine("a", 1, unavailable), machine("b", 3, unavailable), machine("c", 9)},
			policy:   clusterv1.OldestMachineSetDeletionOrder,
			want:     "c b a",
		},
		"it takes the newest even if an older one is not available": {
			machines: []*clusterv1.Machine{machine("a", 1), machine("b", 3, unavailable)},
			policy:   clusterv1.NewestMachineSetDeletionOrder,
			want:     "a b",
		},
		"it goes by age among the unhealthy, with a Node or without": {
			machines: []*clusterv1.Machine{
				machine("well", 9), machine("unjoined", 2, unjoined),
				machine("unhealthy", 3, condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse)),
			},
			policy: clusterv1.OldestMachineSetDeletionOrder,
			want:   "unhealthy unjoined well",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := names(test.machines)
			if diff := cmp.Diff(test.want, names(Order(test.machines, test.policy, "seed"))); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, names(test.machines)); diff != "" {
				t.Errorf("argument changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRandomOrder(t *testing.T) {
	t.Parallel()
	var machines []*clusterv1.Machine
	for i := range 10 {
		machines = append(machines, machine(fmt.Sprintf("m%d", i), i))
	}
	backwards := slices.Clone(machines)
	slices.Reverse(backwards)
	firsts := map[string]int{}
	const seeds = 5000
	for i := range seeds {
		seed := fmt.Sprint(i)
		order := Order(machines, clusterv1.RandomMachineSetDeletionOrder, seed)
		if diff := cmp.Diff(names(order), names(Order(backwards, "", seed))); diff != "" {
			t.Fatalf("seed %s gives two orders:\n%s", seed, diff)
		}
		firsts[order[0].Name]++
	}
	for _, m := range machines {
		if n := firsts[m.Name]; n < seeds/10*8/10 || n > seeds/10*12/10 {
			t.Errorf("%s comes first %d times in %d", m.Name, n, seeds)
		}
	}
}
