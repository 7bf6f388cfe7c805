// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/rollout"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

type statusAndReason struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func statusAndReasonOf(md *clusterv1.MachineDeployment, kind string) statusAndReason {
	c := conditions.Get(md, kind)
	if c == nil {
		return statusAndReason{}
	}
	return statusAndReason{c.Status, c.Reason, c.Message}
}

// setWith has a revision and these counts. Revision 7 has the template of deployment.
func setWith(revision string, replicas, available int32) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "set-" + revision, Annotations: stringMap{clusterv1.RevisionAnnotation: revision}}}
	set.Spec.Replicas = &replicas
	if revision == "7" {
		set.Spec.Template = deployment().Spec.Template
	}
	set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas, set.Status.UpToDateReplicas = &replicas, &available, &available, &available
	set.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.1", Replicas: replicas}}
	return set
}

// blockedSetWith is a MachineSet that wants and has numbers of Machines, all available, and whose condition of a type is Blocked.
func blockedSetWith(revision string, wants, has int32, kind string) *clusterv1.MachineSet {
	set := setWith(revision, has, has)
	set.Spec.Replicas = &wants
	conditions.Set(set, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: droverpolicyv1.BlockedReason, Message: "no quota"})
	return set
}

// TestDeletionIsBlockedAsThatOfASet has a MachineDeployment whose MachineSet cannot be deleted.
func TestDeletionIsBlockedAsThatOfASet(t *testing.T) {
	t.Parallel()
	s := &state{deployment: deployment(), sets: []*clusterv1.MachineSet{blockedSetWith("7", 3, 3, clusterv1.DeletingCondition)}}
	s.deployment.DeletionTimestamp = new(metav1.NewTime(epoch))
	setStatus(s, epoch)
	want := statusAndReason{"True", droverpolicyv1.BlockedReason, "Deleting 1 MachineSet with 0 Machines: MachineSet set-7: no quota"}
	if got := statusAndReasonOf(s.deployment, clusterv1.DeletingCondition); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const upReason, notUp = clusterv1.MachineDeploymentScalingUpReason, clusterv1.MachineDeploymentNotScalingUpReason
	const downReason, notDown = clusterv1.MachineDeploymentScalingDownReason, clusterv1.MachineDeploymentNotScalingDownReason
	const rolling, notRolling = clusterv1.MachineDeploymentRollingOutReason, clusterv1.MachineDeploymentNotRollingOutReason
	const good, bad = clusterv1.MachineDeploymentAvailableReason, clusterv1.MachineDeploymentNotAvailableReason
	const changed = "\n* spec.version is \"\", want \"v1.36.2\"\n* spec.bootstrap.dataSecretName is \"\", want \"data\"\n* spec.infrastructureRef is \"\", want \"ThingTemplate.things.test/t\""
	atRest := [3]statusAndReason{{"False", notRolling, ""}, {"False", notUp, ""}, {"False", notDown, ""}}
	for name, test := range map[string]struct {
		sets       []*clusterv1.MachineSet
		stale      int
		failure    error
		notApplied error
		continues  bool // nevertheless
		wait       rollout.Wait
		available  statusAndReason
		rest       [3]statusAndReason // rolling out, scaling up, scaling down
		phase      clusterv1.MachineDeploymentPhase
	}{
		"at rest": {
			sets: []*clusterv1.MachineSet{setWith("7", 3, 3)}, available: statusAndReason{"True", good, ""}, rest: atRest, phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"not available": {
			sets: []*clusterv1.MachineSet{setWith("7", 3, 2)}, available: statusAndReason{"False", bad, "2 available replicas, at least 3 required"}, rest: atRest,
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"growing": {
			sets: []*clusterv1.MachineSet{setWith("7", 1, 1)}, available: statusAndReason{"False", bad, "1 available replicas, at least 3 required"},
			rest:  [3]statusAndReason{{"False", notRolling, ""}, {"True", upReason, "Scaling up from 1 to 3 replicas"}, {"False", notDown, ""}},
			phase: clusterv1.MachineDeploymentPhaseScalingUp,
		},
		"rolling": {
			sets: []*clusterv1.MachineSet{setWith("6", 2, 2), setWith("7", 2, 1)}, wait: rollout.Wait{On: rollout.WaitingForMachineSet, Message: "not shown"},
			available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{{"True", rolling, "Rolling out 2 not up-to-date replicas" +
				"\n* spec.version is \"\", want \"v1.36.2\"\n* spec.bootstrap.dataSecretName is \"\", want \"data\"\n* spec.infrastructureRef is \"\", want \"ThingTemplate.things.test/t\""}, {"False", notUp, ""}, {"True", downReason, "Scaling down from 4 to 3 replicas"}},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"rolling, but blocked": {
			sets: []*clusterv1.MachineSet{setWith("6", 3, 3)}, wait: rollout.Wait{On: rollout.WaitBlocked, Message: "no template"},
			available: statusAndReason{"True", good, ""},
			rest:      [3]statusAndReason{{"True", droverpolicyv1.BlockedReason, "Rolling out 3 not up-to-date replicas; no template" + changed}, {"False", notUp, ""}, {"False", notDown, ""}},
			phase:     clusterv1.MachineDeploymentPhaseRunning,
		},
		"rolling, but its new set is blocked": {
			sets: []*clusterv1.MachineSet{setWith("6", 3, 3), blockedSetWith("7", 1, 0, clusterv1.MachineSetScalingUpCondition)},
			wait: rollout.Wait{On: rollout.WaitingForNewMachines, Message: "1 of 1 Machine is not available yet"}, available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"True", droverpolicyv1.BlockedReason, "Rolling out 3 not up-to-date replicas; MachineSet set-7: no quota" + changed}, {"False", notUp, "MachineSet set-7: no quota"}, {"False", notDown, ""},
			},
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"rolling, while an old set cannot grow": {
			sets: []*clusterv1.MachineSet{blockedSetWith("6", 3, 2, clusterv1.MachineSetScalingUpCondition), setWith("7", 1, 0)},
			wait: rollout.Wait{On: rollout.WaitingForNewMachines, Message: "1 of 1 Machine is not available yet"}, available: statusAndReason{"False", bad, "2 available replicas, at least 3 required"},
			rest: [3]statusAndReason{
				{"True", rolling, "Rolling out 2 not up-to-date replicas; 1 of 1 Machine is not available yet" + changed}, {"False", notUp, "MachineSet set-6: no quota"}, {"False", notDown, ""},
			},
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"rolling without surge, but the old set cannot shrink": {
			sets: []*clusterv1.MachineSet{blockedSetWith("6", 2, 3, clusterv1.MachineSetScalingDownCondition)},
			wait: rollout.Wait{On: rollout.WaitingForMachineSet, Message: "not shown"}, available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"True", droverpolicyv1.BlockedReason, "Rolling out 3 not up-to-date replicas; MachineSet set-6: no quota" + changed}, {"False", notUp, ""}, {"False", notDown, ""},
			},
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"rolling, but an old set cannot be deleted": {
			sets: []*clusterv1.MachineSet{blockedSetWith("6", 4, 4, clusterv1.DeletingCondition)},
			wait: rollout.Wait{On: rollout.WaitingForMachineSet, Message: "not shown"}, available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"True", droverpolicyv1.BlockedReason, "Rolling out 4 not up-to-date replicas; MachineSet set-6: no quota" + changed}, {"False", notUp, ""},
				{"True", droverpolicyv1.BlockedReason, "Scaling down from 4 to 3 replicas is blocked because: MachineSet set-6: no quota"},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"rolling, but its new set is refused": {
			sets: []*clusterv1.MachineSet{setWith("6", 2, 2)}, notApplied: errors.New("creating MachineSet: no quota"),
			available: statusAndReason{"False", bad, "2 available replicas, at least 3 required; creating MachineSet: no quota"},
			rest: [3]statusAndReason{
				{"True", droverpolicyv1.BlockedReason, "Rolling out 2 not up-to-date replicas; creating MachineSet: no quota" + changed},
				{"True", droverpolicyv1.BlockedReason, "Scaling up from 2 to 3 replicas is blocked: creating MachineSet: no quota"}, {"False", notDown, ""},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingUp,
		},
		"rolling by deletions of a user, while an annotation is refused": {
			sets: []*clusterv1.MachineSet{setWith("6", 2, 2)}, notApplied: errors.New("updating MachineSet: it is protected"), continues: true,
			wait:      rollout.Wait{On: rollout.WaitingForDeletion, Message: "they are deleted by a user"},
			available: statusAndReason{"False", bad, "2 available replicas, at least 3 required; updating MachineSet: it is protected"},
			rest: [3]statusAndReason{
				{"True", rolling, "Rolling out 2 not up-to-date replicas; they are deleted by a user; updating MachineSet: it is protected" + changed},
				{"True", upReason, "Scaling up from 2 to 3 replicas"}, {"False", notDown, ""},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingUp,
		},
		"shrinking, but its set is blocked": {
			sets: []*clusterv1.MachineSet{blockedSetWith("7", 3, 4, clusterv1.MachineSetScalingDownCondition)}, available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"False", notRolling, ""}, {"False", notUp, ""}, {"True", droverpolicyv1.BlockedReason, "Scaling down from 4 to 3 replicas is blocked because: MachineSet set-7: no quota"},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"shrinking, but its set may not be changed": {
			sets: []*clusterv1.MachineSet{setWith("7", 4, 4)}, notApplied: errors.New("updating MachineSet: it is protected"), available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"False", notRolling, "updating MachineSet: it is protected"}, {"False", notUp, ""},
				{"True", droverpolicyv1.BlockedReason, "Scaling down from 4 to 3 replicas is blocked because: updating MachineSet: it is protected"},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"shrinking, but a set is another manager's": {
			sets: []*clusterv1.MachineSet{setWith("7", 4, 4)}, failure: errors.New("another manager's"), available: statusAndReason{"False", bad, "another manager's"},
			rest: [3]statusAndReason{
				{"False", notRolling, ""}, {"False", notUp, ""}, {"True", droverpolicyv1.BlockedReason, "Scaling down from 4 to 3 replicas is blocked because: another manager's"},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"slow to delete": {
			sets: []*clusterv1.MachineSet{setWith("7", 3, 3)}, stale: 2, available: statusAndReason{"True", good, ""},
			rest:  [3]statusAndReason{{"False", notRolling, ""}, {"False", notUp, ""}, {"False", notDown, "2 Machines have been deleting for more than 15m"}},
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
		"slow to shrink": {
			sets: []*clusterv1.MachineSet{setWith("7", 4, 4)}, stale: 1, available: statusAndReason{"True", good, ""},
			rest: [3]statusAndReason{
				{"False", notRolling, ""}, {"False", notUp, ""},
				{"True", downReason, "Scaling down from 4 to 3 replicas; 1 Machine has been deleting for more than 15m"},
			},
			phase: clusterv1.MachineDeploymentPhaseScalingDown,
		},
		"that has failed": {
			sets: []*clusterv1.MachineSet{setWith("7", 3, 3)}, failure: errors.New("spec.rollout is invalid"), available: statusAndReason{"False", bad, "spec.rollout is invalid"}, rest: atRest,
			phase: clusterv1.MachineDeploymentPhaseRunning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{deployment: deployment(), sets: test.sets, blocked: test.failure, notApplied: test.notApplied, decision: rollout.Decision{Wait: test.wait}}
			if !test.continues {
				s.stalled = s.notApplied
			}
			for range test.stale {
				s.machines = append(s.machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(epoch.Add(-16 * time.Minute)))}})
			}
			setStatus(s, epoch)
			if diff := cmp.Diff(test.available, statusAndReasonOf(s.deployment, clusterv1.MachineDeploymentAvailableCondition)); diff != "" {
				t.Errorf("Available: %s", diff)
			}
			for i, kind := range []string{
				clusterv1.MachineDeploymentRollingOutCondition, clusterv1.MachineDeploymentScalingUpCondition, clusterv1.MachineDeploymentScalingDownCondition,
			} {
				if diff := cmp.Diff(test.rest[i], statusAndReasonOf(s.deployment, kind)); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
			}
			if got := s.deployment.Status.GetTypedPhase(); got != test.phase {
				t.Errorf("phase is %q, want %q", got, test.phase)
			}
		})
	}
}

// TestUnknownSizeScalesNothing has MachineSets of which the default of spec.replicas cannot be derived.
func TestUnknownSizeScalesNothing(t *testing.T) {
	t.Parallel()
	s := &state{deployment: deployment(), sets: []*clusterv1.MachineSet{setWith("7", 3, 3)}, blocked: errors.New("invalid sizes")}
	s.deployment.Spec.Replicas = nil
	setStatus(s, epoch)
	for _, kind := range []string{clusterv1.MachineDeploymentScalingUpCondition, clusterv1.MachineDeploymentScalingDownCondition} {
		if got := statusAndReasonOf(s.deployment, kind); got.Status != metav1.ConditionFalse || got.Message != "" {
			t.Errorf("%s is %+v", kind, got)
		}
	}
}

func TestStatusSums(t *testing.T) {
	t.Parallel()
	s := &state{deployment: deployment(), sets: []*clusterv1.MachineSet{setWith("6", 2, 1), setWith("7", 3, 2), {}}}
	s.sets[1].Status.Versions = append(s.sets[1].Status.Versions, clusterv1.StatusVersion{Version: "v1.36.0", Replicas: 1})
	s.deployment.Generation = 5
	setStatus(s, epoch)
	got := s.deployment.Status
	got.Conditions, got.Phase = nil, ""
	want := clusterv1.MachineDeploymentStatus{
		ObservedGeneration: 5, Selector: "pool=a",
		Replicas: new(int32(5)), ReadyReplicas: new(int32(3)), AvailableReplicas: new(int32(3)), UpToDateReplicas: new(int32(2)), // not those of the old set, which may not have it yet
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 1}, {Version: "v1.36.1", Replicas: 5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestScalingUpReportsTheFreezeBeforeItsMachineSetDoes(t *testing.T) {
	t.Parallel()
	set := setWith("7", 1, 1)
	s := &state{deployment: deployment(), sets: []*clusterv1.MachineSet{set}}
	s.freeze.Reason, s.freeze.Message = droverpolicyv1.FrozenByAnnotationReason, "it is frozen"
	setStatus(s, epoch)
	want := "Scaling up from 1 to 3 replicas is blocked: it is frozen"
	if got := statusAndReasonOf(s.deployment, clusterv1.MachineDeploymentScalingUpCondition); got != (statusAndReason{"True", droverpolicyv1.BlockedReason, want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestScalingUpReportsBlockedSet(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]*int32{"a set": new(int32(3)), "a set without replicas": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setWith("7", 1, 1)
			set.Spec.Replicas = replicas
			conditions.Set(set, metav1.Condition{Type: clusterv1.MachineSetScalingUpCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.BlockedReason, Message: "no quota"})
			s := &state{deployment: deployment(), sets: []*clusterv1.MachineSet{set}}
			setStatus(s, epoch)
			want := statusAndReason{"True", droverpolicyv1.BlockedReason, "MachineSet set-7: no quota"}
			if replicas == nil {
				want = statusAndReason{"True", clusterv1.MachineDeploymentScalingUpReason, "Scaling up from 1 to 3 replicas"}
			}
			if got := statusAndReasonOf(s.deployment, clusterv1.MachineDeploymentScalingUpCondition); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
