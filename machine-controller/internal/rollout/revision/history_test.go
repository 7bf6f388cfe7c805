// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// annotated is deployment with annotations and with values in the fields that change in place.
func annotated() *clusterv1.MachineDeployment {
	md := deployment()
	md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7"}
	md.Spec.Template.Labels, md.Spec.Template.Annotations = map[string]string{"l": "1"}, map[string]string{"a": "1"}
	md.Spec.Template.Spec.Version = "v1.36.2"
	md.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	md.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	md.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationAlways}}
	md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(6))
	return md
}

// numbered is a MachineSet of a revision, with that version.
func numbered(revision, version string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-" + revision, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision}}}
	set.Spec.Template = *annotated().Spec.Template.DeepCopy()
	set.Spec.Template.Labels = map[string]string{"l": "1", clusterv1.MachineDeploymentUniqueLabel: "hash"}
	set.Spec.Template.Spec.Version = version
	return set
}

func TestRestore(t *testing.T) {
	t.Parallel()
	again := numbered("6", "v1.36.0")
	again.Annotations[UpstreamHistoryAnnotation] = "1,3"
	sets := []*clusterv1.MachineSet{numbered("2", "v1.36.1"), numbered("7", "v1.36.2"), again}
	for name, test := range map[string]struct {
		wanted string
		sets   []*clusterv1.MachineSet
		want   string // version; none is an error
	}{
		"it restores a revision":                        {"2", sets, "v1.36.1"},
		"it restores the previous revision":             {"previous", sets, "v1.36.0"},
		"it finds a MachineSet by a past revision":      {"3", sets, "v1.36.0"},
		"it ignores surrounding spaces":                 {" 2 ", sets, "v1.36.1"},
		"it refuses the current revision":               {"7", sets, ""},
		"it refuses a revision that does not exist":     {"4", sets, ""},
		"it refuses what is no revision":                {"latest", sets, ""},
		"it refuses where there is no earlier revision": {"previous", sets[1:2], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := annotated()
			md.Annotations[RollbackAnnotation] = test.wanted
			want := md.DeepCopy()
			delete(want.Annotations, RollbackAnnotation)
			restored, err := Restore(md, test.sets)
			if (err == nil) != (test.want != "") || (restored == nil) != (test.want == "") {
				t.Errorf("restored %v, error %v", restored, err)
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

func TestRestoreWithoutAnnotation(t *testing.T) {
	t.Parallel()
	md := annotated()
	want := md.DeepCopy()
	if restored, err := Restore(md, []*clusterv1.MachineSet{numbered("2", "v1.36.1")}); restored != nil || err != nil {
		t.Errorf("restored %v, error %v", restored, err)
	}
	if diff := cmp.Diff(want, md); diff != "" {
		t.Error(diff)
	}
}

// TestRestoreKeepsInPlaceFields restores a MachineSet that does not have yet what
// changed in place: taints of today stay, or a rollback for the version would take them off every Node.
func TestRestoreKeepsInPlaceFields(t *testing.T) {
	t.Parallel()
	md := annotated()
	md.Annotations[RollbackAnnotation] = Previous
	set := numbered("2", "v1.36.1")
	set.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{clusterv1.MachineDeploymentUniqueLabel: "hash", "old": "1"}}
	set.Spec.Template.Spec.Taints, set.Spec.Template.Spec.MinReadySeconds = nil, nil
	want := md.Spec.Template.DeepCopy()
	want.Spec.Version = "v1.36.1"
	if _, err := Restore(md, []*clusterv1.MachineSet{set}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &md.Spec.Template); diff != "" {
		t.Error(diff)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	set := numbered("2", "v1.36.1")
	for _, revision := range []string{"2", "5", "5", "9"} {
		Set(set, revision)
	}
	want := map[string]string{clusterv1.RevisionAnnotation: "9", UpstreamHistoryAnnotation: "2,5"}
	if diff := cmp.Diff(want, set.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestRestoreBlamesTheLimitOnlyForWhatItRemoved: a revision above the newest one never was, however many are kept.
func TestRestoreBlamesTheLimitOnlyForWhatItRemoved(t *testing.T) {
	t.Parallel()
	for wanted, limit := range map[string]bool{"previous": true, "1": true, "99": false} {
		md := annotated()
		md.Annotations[RollbackAnnotation], md.Annotations[clusterv1.RevisionAnnotation] = wanted, "7"
		_, err := Restore(md, []*clusterv1.MachineSet{numbered("7", "v1.36.2")})
		if err == nil || strings.Contains(err.Error(), HistoryLimitAnnotation) != limit {
			t.Errorf("%s: error %v", wanted, err)
		}
	}
}
