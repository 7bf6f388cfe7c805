// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// deployment is rolled out, but for what a test changes.
func deployment(change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{}
	md.Name, md.Generation, md.Status.ObservedGeneration = "web", 2, 2
	md.Spec.Replicas = new(int32(3))
	md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas = new(int32(3)), new(int32(3)), new(int32(3))
	change(md)
	return md
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	condition := func(name string, status metav1.ConditionStatus, message string) func(*clusterv1.MachineDeployment) {
		return func(md *clusterv1.MachineDeployment) {
			md.Status.Conditions = append(md.Status.Conditions, metav1.Condition{Type: name, Status: status, Message: message})
		}
	}
	const counts = "3 of 3 Machines are up to date, 3 available"
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		want   State
	}{
		"is complete": {
			func(*clusterv1.MachineDeployment) {},
			State{Text: "MachineDeployment web is rolled out: " + counts, Complete: true},
		},
		"waits for a rollback that was requested, which changes no generation": {
			func(md *clusterv1.MachineDeployment) {
				md.Annotations = map[string]string{RollbackAnnotation: "previous"}
			},
			State{Text: "Waiting for the template of the earlier revision to be restored"},
		},
		"fails after a rollback that was refused": {
			condition(policyv1.RolledBackCondition, metav1.ConditionFalse, "no such revision"),
			State{Text: counts + ": no such revision", Failed: true},
		},
		"says that it is paused": {
			condition(clusterv1.PausedCondition, metav1.ConditionTrue, "Cluster spec.paused is set to true"),
			State{Text: counts + ": nothing is done while it is paused: Cluster spec.paused is set to true"},
		},
		"has failed when its deadline is over": {
			condition(policyv1.ProgressingCondition, metav1.ConditionFalse, "No progress for 10m"),
			State{Text: counts + ": No progress for 10m", Failed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, StateOf(deployment(test.change))); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompareRestarts has a restart in a manifest.
func TestCompareRestarts(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) *clusterv1.MachineDeployment {
		return deployment(func(md *clusterv1.MachineDeployment) {
			md.CreationTimestamp, md.Spec.Rollout.After = metav1.NewTime(created), metav1.NewTime(created.Add(after))
		})
	}
	is := at(time.Hour)
	for name, test := range map[string]struct {
		want     *clusterv1.MachineDeployment
		replaced int32
	}{
		"replaces Machines that are older than another time":         {at(2 * time.Hour), 3},
		"replaces none for the same time":                            {at(time.Hour), 0},
		"replaces none for a time before there was any Machine":      {at(-time.Hour), 0},
		"replaces none where the time is removed from the manifests": {deployment(func(*clusterv1.MachineDeployment) {}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Compare(is, test.want); got.Replaced != test.replaced || len(got.Why) > 0 != (test.replaced > 0) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
