// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package predicates

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestChildPredicate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		watch WatchFilter
		child *clusterv1.Machine
		want  bool
	}{
		"passes all without a filter":           {"", labelled("x"), true},
		"passes its own":                        {"x", labelled("x"), true},
		"passes one that has no label yet":      {"x", labelled(), true},
		"stops another manager's":               {"x", labelled("y"), false},
		"stops one that has an empty label":     {"x", labelled(""), false},
		"passes an empty label without filter":  {"", labelled(""), true},
		"passes no label where there is no own": {"", labelled(), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := test.watch.ChildPredicate()
			got := []bool{
				p.Create(event.CreateEvent{Object: test.child}), p.Delete(event.DeleteEvent{Object: test.child}),
				p.Generic(event.GenericEvent{Object: test.child}),
				p.Update(event.UpdateEvent{ObjectOld: labelled("y"), ObjectNew: test.child}),
			}
			if diff := cmp.Diff([]bool{test.want, test.want, test.want, test.want}, got); diff != "" {
				t.Errorf("create, delete, generic, update (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeignErrorNamesTheWayOut names the object, both managers, and what to change.
func TestForeignErrorNamesTheWayOut(t *testing.T) {
	t.Parallel()
	err := CheckNoneForeign("ours", "MachineSet", []*clusterv1.Machine{labelled("ours"), labelled(), labelled("theirs"), labelled("others")})
	foreign, is := errors.AsType[*ForeignError](err)
	if !is {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(&ForeignError{Kind: "MachineSet", Name: "m", Value: "theirs", Own: "ours"}, foreign); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := `MachineSet "m" has the label cluster.x-k8s.io/watch-filter: "theirs", so another manager reconciles it: set the label to "ours", or take the object out of this one's ownership`
	if foreign.Error() != want {
		t.Errorf("the message is %q", foreign.Error())
	}
	first, second := labelled("theirs"), labelled("theirs")
	first.Name, second.Name = "a", "b"
	for _, order := range [][]*clusterv1.Machine{{first, second}, {second, first}} {
		if foreign, is := errors.AsType[*ForeignError](CheckNoneForeign("ours", "Machine", order)); !is || foreign.Name != "a" {
			t.Errorf("got %v, want the first by name", foreign)
		}
	}
	if err := CheckNoneForeign[*clusterv1.Machine]("ours", "Machine", nil); err != nil {
		t.Errorf("of no objects: %v", err)
	}
}

func TestInheritWithoutLabels(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(map[string]string{clusterv1.WatchLabel: "parent"}, Inherit(nil, labelled("parent"))); diff != "" {
		t.Errorf("with a labelled parent (-want +got):\n%s", diff)
	}
	if got := Inherit(nil, labelled()); got != nil {
		t.Errorf("with a parent without the label: %v", got)
	}
}
