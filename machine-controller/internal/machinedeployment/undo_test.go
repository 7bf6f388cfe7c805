// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// past is a MachineSet of an earlier revision, with that version.
func past(revision, version string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-" + revision, Annotations: pairs{clusterv1.RevisionAnnotation: revision}}}
	set.Spec.Template = *deployment().Spec.Template.DeepCopy()
	set.Spec.Template.Labels = carried("hash")
	set.Spec.Template.Spec.Version = version
	return set
}

func TestUndo(t *testing.T) {
	t.Parallel()
	again := past("6", "v0")
	again.Annotations[revisionsAnnotation] = "1,3"
	sets := []*clusterv1.MachineSet{past("2", "v1"), past("7", "v2"), again}
	for name, test := range map[string]struct {
		wanted string
		sets   []*clusterv1.MachineSet
		want   string // version; none is an error
	}{
		"it goes back to a revision":                 {"2", sets, "v1"},
		"it goes back to the one before":             {"previous", sets, "v0"},
		"it knows a MachineSet by an earlier number": {"3", sets, "v0"},
		"it takes spaces for a slip":                 {" 2 ", sets, "v1"},
		"it does not go to where it is":              {"7", sets, ""},
		"it does not go to what is not kept":         {"4", sets, ""},
		"it does not go to what is no revision":      {"latest", sets, ""},
		"it does not go back where there is nothing": {"previous", sets[1:2], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.Annotations[RollbackAnnotation] = test.wanted
			want := md.DeepCopy()
			delete(want.Annotations, RollbackAnnotation)
			said, err := undo(md, test.sets)
			if (err == nil) != (test.want != "") || (said == "") != (test.want == "") {
				t.Errorf("said %q, error %v", said, err)
			}
			if test.want != "" {
				want.Spec.Template.Labels, want.Spec.Template.Spec.Version = pairs{"l": "1", "pool": "a"}, test.want
			}
			if diff := cmp.Diff(want, md); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUndoDoesNothingUnasked(t *testing.T) {
	t.Parallel()
	md := deployment()
	want := md.DeepCopy()
	if said, err := undo(md, []*clusterv1.MachineSet{past("2", "v1")}); said != "" || err != nil {
		t.Errorf("said %q, error %v", said, err)
	}
	if diff := cmp.Diff(want, md); diff != "" {
		t.Error(diff)
	}
}

// TestUndoLeavesNoEmptyMetadata goes back to a template without labels of its own: an empty
// metadata in its place would be refused.
func TestUndoLeavesNoEmptyMetadata(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Annotations[RollbackAnnotation], md.Spec.Template.ObjectMeta = previous, clusterv1.ObjectMeta{}
	set := past("2", "v1")
	set.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: pairs{
		clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineDeploymentUniqueLabel: "hash",
	}}
	if _, err := undo(md, []*clusterv1.MachineSet{set}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clusterv1.ObjectMeta{}, md.Spec.Template.ObjectMeta); diff != "" {
		t.Error(diff)
	}
}

func TestRenumber(t *testing.T) {
	t.Parallel()
	set := past("2", "v1")
	for _, revision := range []string{"2", "5", "5", "9"} {
		renumber(set, revision)
	}
	want := pairs{clusterv1.RevisionAnnotation: "9", revisionsAnnotation: "2,5"}
	if diff := cmp.Diff(want, set.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestAnnotationsLeaveWithTheDeployments takes away what the deployment has lost, and nothing else.
func TestAnnotationsLeaveWithTheDeployments(t *testing.T) {
	t.Parallel()
	own := pairs{"own": "1", "left": "1", "stays": "1", carriedAnnotations: "left,stays"}
	got := annotations(own, pairs{"stays": "2", "comes": "1", HistoryAnnotation: "3"})
	if diff := cmp.Diff(pairs{"own": "1", "stays": "2", "comes": "1", carriedAnnotations: "comes,stays"}, got); diff != "" {
		t.Error(diff)
	}
	if got := annotations(got, nil); len(got) != 1 || got["own"] != "1" {
		t.Errorf("after all have left: %v", got)
	}
}
