// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// machineOfVersion is a Machine with that kubelet version for which these conditions are true.
func machineOfVersion(version string, are ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	if version != "" {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	}
	for _, kind := range are {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "r"})
	}
	return m
}

// wanting is a Machine that is to have a version and has no Node yet.
func wanting(version string) *clusterv1.Machine {
	m := machineOfVersion("")
	m.Spec.Version = version
	return m
}

func TestStatusCounts(t *testing.T) {
	t.Parallel()
	set := setOf(nil, nil)
	set.Generation, set.Spec.Replicas = 4, new(int32(4))
	s := &state{set: set, cluster: &clusterv1.Cluster{}, created: 1, machines: []*clusterv1.Machine{
		machineOfVersion("v1.36.3", clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition, clusterv1.MachineUpToDateCondition),
		machineOfVersion("v1.35.0", clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition),
		machineOfVersion("v1.36.3", clusterv1.MachineReadyCondition),
		machineOfVersion(""),
		wanting("1.36.3"),
	}}
	setStatus(s, epoch)
	got := set.Status
	got.Conditions = nil
	want := clusterv1.MachineSetStatus{
		ObservedGeneration: 4, Selector: "pool=a",
		Replicas: new(int32(6)), ReadyReplicas: new(int32(3)), AvailableReplicas: new(int32(2)), UpToDateReplicas: new(int32(1)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.35.0", Replicas: 1}, {Version: "v1.36.3", Replicas: 3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSelectorDefaultsToTheSetsOwnLabels(t *testing.T) {
	t.Parallel()
	set := setOf(nil, nil)
	set.Spec.Selector = metav1.LabelSelector{}
	got, err := selector(set)
	if err != nil || got.String() != "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/set-name=set" {
		t.Errorf("selector is %q, error %v", got, err)
	}
	set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Foo"}}
	if _, err := selector(set); err == nil {
		t.Error("an operator that does not exist is no error")
	}
}

func TestScalingConditions(t *testing.T) {
	t.Parallel()
	type condition struct {
		Status          metav1.ConditionStatus
		Reason, Message string
	}
	const up, notUp = clusterv1.MachineSetScalingUpReason, clusterv1.MachineSetNotScalingUpReason
	const down, notDown = clusterv1.MachineSetScalingDownReason, clusterv1.MachineSetNotScalingDownReason
	for name, test := range map[string]struct {
		desired  int32
		machines int
		stale    int
		change   func(*state)
		up, down condition
	}{
		"complete":                  {2, 2, 0, nil, condition{"False", notUp, ""}, condition{"False", notDown, ""}},
		"scaling up":                {3, 1, 0, nil, condition{"True", up, "Scaling up from 1 to 3 replicas"}, condition{"False", notDown, ""}},
		"counting created Machines": {3, 1, 0, func(s *state) { s.created = 2 }, condition{"False", notUp, ""}, condition{"False", notDown, ""}},
		"scaling up blocked": {
			3, 1, 0, func(s *state) { s.blocked = errors.New("no template") },
			condition{"True", droverpolicyv1.BlockedReason, "Scaling up from 1 to 3 replicas is blocked because: no template"}, condition{"False", notDown, ""},
		},
		"waiting for those on their way": {
			3, 1, 0, func(s *state) { s.blocked, s.passes = errors.New("at most 1 pending Machine"), true },
			condition{"True", up, "Scaling up from 1 to 3 replicas is blocked because: at most 1 pending Machine"}, condition{"False", notDown, ""},
		},
		"blocked with nothing to create": {
			1, 1, 0, func(s *state) { s.blocked = errors.New("no template") }, condition{"False", notUp, "no template"}, condition{"False", notDown, ""},
		},
		"creation disabled": {
			3, 1, 0, func(s *state) {
				s.set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
			},
			condition{"True", droverpolicyv1.BlockedReason, "Scaling up from 1 to 3 replicas is blocked by the annotation " + clusterv1.DisableMachineCreateAnnotation}, condition{"False", notDown, ""},
		},
		"creation not disabled by the value false": {
			3, 1, 0, func(s *state) {
				s.set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "false"}
			},
			condition{"True", up, "Scaling up from 1 to 3 replicas"}, condition{"False", notDown, ""},
		},
		"scaling down": {1, 3, 0, nil, condition{"False", notUp, ""}, condition{"True", down, "Scaling down from 3 to 1 replicas"}},
		"scaling down slowly": {
			1, 3, 2, nil, condition{"False", notUp, ""}, condition{"True", down, "Scaling down from 3 to 1 replicas; 2 Machines have been deleting for more than 15m"},
		},
		"of a size that is not known": {
			0, 3, 0, func(s *state) { s.set.Spec.Replicas, s.blocked = nil, errors.New("invalid sizes") },
			condition{"False", notUp, "invalid sizes"}, condition{"False", notDown, ""},
		},
		"deleting slowly": {2, 2, 1, nil, condition{"False", notUp, ""}, condition{"False", notDown, "1 Machine has been deleting for more than 15m"}},
		"deleted": {
			2, 2, 0, func(s *state) { s.set.DeletionTimestamp = new(metav1.NewTime(epoch)) },
			condition{"False", notUp, ""}, condition{"True", down, "Scaling down from 2 to 0 replicas"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{set: setOf(nil, nil), cluster: &clusterv1.Cluster{}}
			s.set.Spec.Replicas = &test.desired
			for i := range test.machines {
				m := machineOfVersion("")
				if i < test.stale {
					m.DeletionTimestamp = new(metav1.NewTime(epoch.Add(-16 * time.Minute)))
				}
				s.machines = append(s.machines, m)
			}
			if test.change != nil {
				test.change(s)
			}
			setStatus(s, epoch)
			for kind, want := range map[string]condition{clusterv1.MachineSetScalingUpCondition: test.up, clusterv1.MachineSetScalingDownCondition: test.down} {
				c := conditions.Get(s.set, kind)
				if diff := cmp.Diff(want, condition{c.Status, c.Reason, c.Message}); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
			}
		})
	}
}
