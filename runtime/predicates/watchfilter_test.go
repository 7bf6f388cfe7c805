// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package predicates

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func labelled(values ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name = "m"
	for _, value := range values {
		m.Labels = map[string]string{clusterv1.WatchLabel: value}
	}
	return m
}

type counting struct{ seen int }

func (c *counting) Reconcile(context.Context, *clusterv1.Machine) (reconcile.Result, error) {
	c.seen++
	return reconcile.Result{}, nil
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		watch        WatchFilter
		object       *clusterv1.Machine
		has, foreign bool
	}{
		"it has everything without a filter":         {"", labelled("x"), true, false},
		"it has what has its label":                  {"x", labelled("x"), true, false},
		"it lacks what has another's":                {"x", labelled("y"), false, true},
		"it lacks what has no label":                 {"x", labelled(), false, false},
		"it takes an empty value for another's":      {"x", labelled(""), false, true},
		"it has what has no label, without a filter": {"", labelled(), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := [2]bool{test.watch.Matches(test.object), test.watch.Foreign(test.object)}; got != [2]bool{test.has, test.foreign} {
				t.Errorf("has and foreign are %v", got)
			}
			err := CheckNoneForeign(test.watch, "Machine", []*clusterv1.Machine{labelled(string(test.watch)), test.object})
			if (err != nil) != test.foreign || err != nil && !strings.Contains(err.Error(), `Machine "m" has the label cluster.x-k8s.io/watch-filter: `) {
				t.Errorf("the complaint is %v", err)
			}
			next := &counting{}
			if _, err := FilterReconciler(test.watch, next).Reconcile(t.Context(), test.object); err != nil || next.seen == 1 != test.has {
				t.Errorf("was reconciled %d times (%v)", next.seen, err)
			}
		})
	}
}

func TestInherit(t *testing.T) {
	t.Parallel()
	of := map[string]string{"a": "b", clusterv1.WatchLabel: "template"}
	if diff := cmp.Diff(map[string]string{"a": "b", clusterv1.WatchLabel: "parent"}, Inherit(of, labelled("parent"))); diff != "" {
		t.Errorf("with a labelled parent: %s", diff)
	}
	if diff := cmp.Diff(of, Inherit(of, labelled())); diff != "" {
		t.Errorf("with a parent without the label: %s", diff)
	}
	if of[clusterv1.WatchLabel] != "template" {
		t.Error("the labels that were handed in changed")
	}
	for child, inherited := range map[*clusterv1.Machine]bool{labelled("parent"): true, labelled("other"): false, labelled(): false} {
		if Inherited(child, labelled("parent")) != inherited || !Inherited(child, labelled()) {
			t.Errorf("a child labelled %v is judged wrongly", child.Labels)
		}
	}
}

func TestMatchingPredicate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value, label string
		want         bool
	}{
		"passes all without a filter": {"", "x", true},
		"passes its own":              {"x", "x", true},
		"stops another's":             {"x", "y", false},
		"stops what has no label":     {"x", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			if test.label != "" {
				m.Labels = map[string]string{clusterv1.WatchLabel: test.label}
			}
			p := WatchFilter(test.value).MatchingPredicate()
			if p.Create(event.CreateEvent{Object: m}) != test.want || p.Delete(event.DeleteEvent{Object: m}) != test.want ||
				p.Update(event.UpdateEvent{ObjectOld: &clusterv1.Machine{}, ObjectNew: m}) != test.want {
				t.Errorf("does not answer %t to all", test.want)
			}
		})
	}
}
