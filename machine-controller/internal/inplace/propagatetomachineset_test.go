// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/testenv"
)

type stringMap = map[string]string

// deployment is "md" of the Cluster "c", with something in every field that is carried.
func deployment() *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "md", UID: "md-uid",
		Annotations: stringMap{
			"carried": "1", clusterv1.RevisionAnnotation: "7", revision.HistoryLimitAnnotation: "2", clusterv1.DesiredReplicasAnnotation: "9",
			clusterv1.MaxReplicasAnnotation: "9", clusterv1.DisableMachineCreateAnnotation: "true", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		},
	}}
	md.Spec.ClusterName, md.Spec.Template.Spec, md.Spec.Replicas = "c", testenv.TemplateSpec(), new(int32(3))
	md.Spec.Selector.MatchLabels = stringMap{"pool": "a"}
	md.Spec.Template.Labels, md.Spec.Template.Annotations = stringMap{"l": "1"}, stringMap{"a": "1"}
	md.Spec.Template.Spec.Version = "v1.36.2"
	md.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	md.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	md.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationAlways}}
	md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(6))
	md.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
	md.Spec.MachineNaming.Template = "{{ .random }}"
	return md
}

// propagatedLabels are the labels of every MachineSet of deployment, with that hash.
func propagatedLabels(hash string) stringMap {
	return stringMap{
		"l": "1", "pool": "a", clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineDeploymentUniqueLabel: hash,
	}
}

// withOwn adds a label that is not of the MachineDeployment.
func withOwn(labels stringMap) stringMap {
	labels["own"] = "1"
	return labels
}

func TestMachineSet(t *testing.T) {
	t.Parallel()
	md := deployment()
	given := md.DeepCopy()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Labels:      stringMap{clusterv1.MachineDeploymentUniqueLabel: "hash", "old": "1", "own": "1", "l": "0"},
		Annotations: stringMap{"own": "1", "carried": "0", clusterv1.DesiredReplicasAnnotation: "3"},
	}}
	set.Spec.Template.Labels = stringMap{"old": "1"}
	set.Spec.Template.Spec.Version = "v1.36.1"
	for range 2 { // the second time finds nothing to do
		PropagateToMachineSet(set, md)
	}
	want := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Labels:      withOwn(propagatedLabels("hash")),
		Annotations: stringMap{"own": "1", "carried": "1", propagatedAnnotations: "carried", clusterv1.DesiredReplicasAnnotation: "3"},
	}}
	want.Spec.Template.Labels, want.Spec.Template.Annotations = propagatedLabels("hash"), stringMap{"a": "1"}
	want.Spec.Template.Spec = clusterv1.MachineSpec{
		Version:        "v1.36.1", // this takes another MachineSet
		ReadinessGates: md.Spec.Template.Spec.ReadinessGates, MinReadySeconds: new(int32(5)), Taints: md.Spec.Template.Spec.Taints,
		Deletion: clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: new(int32(6))},
	}
	want.Spec.Deletion.Order, want.Spec.MachineNaming = clusterv1.OldestMachineSetDeletionOrder, md.Spec.MachineNaming
	if diff := cmp.Diff(want, set); diff != "" {
		t.Error(diff)
	}
	set.Spec.Template.Annotations["a"], *set.Spec.Template.Spec.MinReadySeconds, set.Labels["l"] = "changed", 0, "changed"
	if diff := cmp.Diff(given, md); diff != "" {
		t.Errorf("the MachineDeployment was changed: %s", diff)
	}
	if set.Spec.Template.Labels["l"] == "changed" {
		t.Error("the labels of the set and of its template are one map")
	}
}

func TestMachineSetDeletionChangesNothingElse(t *testing.T) {
	t.Parallel()
	set, want := &clusterv1.MachineSet{}, &clusterv1.MachineSet{}
	MachineSetDeletion(set, deployment())
	want.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
	want.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(6))
	if diff := cmp.Diff(want, set); diff != "" {
		t.Error(diff)
	}
}

// TestRemovedAnnotationsAreRemovedFromSets takes away what the deployment has lost, and nothing else.
func TestRemovedAnnotationsAreRemovedFromSets(t *testing.T) {
	t.Parallel()
	own := stringMap{"own": "1", "left": "1", "stays": "1", propagatedAnnotations: "left,stays"}
	got := annotations(own, stringMap{"stays": "2", "comes": "1", revision.HistoryLimitAnnotation: "3"})
	if diff := cmp.Diff(stringMap{"own": "1", "stays": "2", "comes": "1", propagatedAnnotations: "comes,stays"}, got); diff != "" {
		t.Error(diff)
	}
	if got := annotations(got, nil); len(got) != 1 || got["own"] != "1" {
		t.Errorf("after all have left: %v", got)
	}
}
