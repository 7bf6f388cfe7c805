// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// setOfRevision is a MachineSet of an earlier revision, with that version.
func setOfRevision(revision, version string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-" + revision, Annotations: stringMap{clusterv1.RevisionAnnotation: revision}}}
	set.Spec.Template = *deployment().Spec.Template.DeepCopy()
	set.Spec.Template.Labels = propagatedLabels("hash")
	set.Spec.Template.Spec.Version = version
	return set
}

func TestRestoreRevision(t *testing.T) {
	t.Parallel()
	again := setOfRevision("6", "v1.36.0")
	again.Annotations[revisionsAnnotation] = "1,3"
	sets := []*clusterv1.MachineSet{setOfRevision("2", "v1.36.1"), setOfRevision("7", "v1.36.2"), again}
	for name, test := range map[string]struct {
		wanted string
		sets   []*clusterv1.MachineSet
		want   string // version; none is an error
	}{
		"it goes back to a revision":                 {"2", sets, "v1.36.1"},
		"it goes back to the one before":             {"previous", sets, "v1.36.0"},
		"it knows a MachineSet by an earlier number": {"3", sets, "v1.36.0"},
		"it takes spaces for a slip":                 {" 2 ", sets, "v1.36.1"},
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
			said, err := restoreRevision(md, test.sets)
			if (err == nil) != (test.want != "") || (said == "") != (test.want == "") {
				t.Errorf("said %q, error %v", said, err)
			}
			if test.want != "" {
				want.Spec.Template.Spec.Version = test.want
			}
			if diff := cmp.Diff(want, md); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRestoreRevisionWithoutAnnotation(t *testing.T) {
	t.Parallel()
	md := deployment()
	want := md.DeepCopy()
	if said, err := restoreRevision(md, []*clusterv1.MachineSet{setOfRevision("2", "v1.36.1")}); said != "" || err != nil {
		t.Errorf("said %q, error %v", said, err)
	}
	if diff := cmp.Diff(want, md); diff != "" {
		t.Error(diff)
	}
}

// TestRestoreRevisionKeepsInPlaceFields goes back to a MachineSet that has not been told yet what
// changed in place: taints of today stay, or a rollback for the version would take them off every Node.
func TestRestoreRevisionKeepsInPlaceFields(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Annotations[RollbackAnnotation] = previousRevision
	set := setOfRevision("2", "v1.36.1")
	set.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: stringMap{clusterv1.MachineDeploymentUniqueLabel: "hash", "old": "1"}}
	set.Spec.Template.Spec.Taints, set.Spec.Template.Spec.MinReadySeconds = nil, nil
	want := md.Spec.Template.DeepCopy()
	want.Spec.Version = "v1.36.1"
	if _, err := restoreRevision(md, []*clusterv1.MachineSet{set}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &md.Spec.Template); diff != "" {
		t.Error(diff)
	}
}

func TestSetRevision(t *testing.T) {
	t.Parallel()
	set := setOfRevision("2", "v1.36.1")
	for _, revision := range []string{"2", "5", "5", "9"} {
		setRevision(set, revision)
	}
	want := stringMap{clusterv1.RevisionAnnotation: "9", revisionsAnnotation: "2,5"}
	if diff := cmp.Diff(want, set.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestRemovedAnnotationsAreRemovedFromSets takes away what the deployment has lost, and nothing else.
func TestRemovedAnnotationsAreRemovedFromSets(t *testing.T) {
	t.Parallel()
	own := stringMap{"own": "1", "left": "1", "stays": "1", propagatedAnnotations: "left,stays"}
	got := annotations(own, stringMap{"stays": "2", "comes": "1", HistoryAnnotation: "3"})
	if diff := cmp.Diff(stringMap{"own": "1", "stays": "2", "comes": "1", propagatedAnnotations: "comes,stays"}, got); diff != "" {
		t.Error(diff)
	}
	if got := annotations(got, nil); len(got) != 1 || got["own"] != "1" {
		t.Errorf("after all have left: %v", got)
	}
}
