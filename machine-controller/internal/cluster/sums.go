// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/ownership"
)

// sum is a condition of the Cluster that is made of one condition of each of its parts. One that is good is True when that of
// every part is; any other is True when that of one part is. In between it is Unknown if that of a part is not known.
type sum struct {
	target string
	good   bool
	// yes, no and unknown are the reasons of the statuses. none is that of a good one without parts, which is True.
	yes, no, unknown, none string
	parts                  func(*state) []part
}

// part is one object of a Cluster whose condition counts; one that is not reported yet is Unknown.
type part struct {
	name      string
	condition metav1.Condition
}

// sums are the conditions that a Cluster takes from its control plane and its workers.
var sums = []sum{
	{clusterv1.ClusterControlPlaneMachinesReadyCondition, true,
		clusterv1.ClusterControlPlaneMachinesReadyReason, clusterv1.ClusterControlPlaneMachinesNotReadyReason,
		clusterv1.ClusterControlPlaneMachinesReadyUnknownReason, clusterv1.ClusterControlPlaneMachinesReadyNoReplicasReason,
		controlPlaneMachines(clusterv1.MachineReadyCondition)},
	{clusterv1.ClusterControlPlaneMachinesUpToDateCondition, true,
		clusterv1.ClusterControlPlaneMachinesUpToDateReason, clusterv1.ClusterControlPlaneMachinesNotUpToDateReason,
		clusterv1.ClusterControlPlaneMachinesUpToDateUnknownReason, clusterv1.ClusterControlPlaneMachinesUpToDateNoReplicasReason,
		controlPlaneMachines(clusterv1.MachineUpToDateCondition)},
	{clusterv1.ClusterWorkerMachinesReadyCondition, true,
		clusterv1.ClusterWorkerMachinesReadyReason, clusterv1.ClusterWorkerMachinesNotReadyReason,
		clusterv1.ClusterWorkerMachinesReadyUnknownReason, clusterv1.ClusterWorkerMachinesReadyNoReplicasReason,
		workerMachines(clusterv1.MachinesReadyCondition, clusterv1.MachineReadyCondition)},
	{clusterv1.ClusterWorkerMachinesUpToDateCondition, true,
		clusterv1.ClusterWorkerMachinesUpToDateReason, clusterv1.ClusterWorkerMachinesNotUpToDateReason,
		clusterv1.ClusterWorkerMachinesUpToDateUnknownReason, clusterv1.ClusterWorkerMachinesUpToDateNoReplicasReason,
		workerMachines(clusterv1.MachinesUpToDateCondition, clusterv1.MachineUpToDateCondition)},
	{clusterv1.ClusterRollingOutCondition, false,
		clusterv1.ClusterRollingOutReason, clusterv1.ClusterNotRollingOutReason, clusterv1.ClusterRollingOutUnknownReason, "",
		owners(clusterv1.RollingOutCondition)},
	{clusterv1.ClusterScalingUpCondition, false,
		clusterv1.ClusterScalingUpReason, clusterv1.ClusterNotScalingUpReason, clusterv1.ClusterScalingUpUnknownReason, "",
		owners(clusterv1.ScalingUpCondition)},
	{clusterv1.ClusterScalingDownCondition, false,
		clusterv1.ClusterScalingDownReason, clusterv1.ClusterNotScalingDownReason, clusterv1.ClusterScalingDownUnknownReason, "",
		owners(clusterv1.ScalingDownCondition)},
	{clusterv1.ClusterRemediatingCondition, false,
		clusterv1.ClusterRemediatingReason, clusterv1.ClusterNotRemediatingReason, clusterv1.ClusterRemediatingInternalErrorReason, "",
		remediating},
}

// of is the condition, with the message of the first part by name that has one, of those that decide: an index returns them
// in any order.
func (u sum) of(s *state) metav1.Condition {
	parts := u.parts(s)
	if u.good && len(parts) == 0 {
		return metav1.Condition{Type: u.target, Status: metav1.ConditionTrue, Reason: u.none}
	}
	// By how much they decide: as usual, not known, and an issue.
	outcomes := []metav1.Condition{
		boolCondition(u.target, u.good, u.yes, u.no),
		{Type: u.target, Status: metav1.ConditionUnknown, Reason: u.unknown},
		boolCondition(u.target, !u.good, u.yes, u.no),
	}
	decisive, first, message := 0, "", ""
	for _, each := range parts {
		at := max(0, slices.IndexFunc(outcomes, func(c metav1.Condition) bool { return c.Status == each.condition.Status }))
		if at == 0 || at < decisive {
			continue
		}
		if at > decisive {
			decisive, first, message = at, "", ""
		}
		if each.condition.Message != "" && (message == "" || each.name < first) {
			first, message = each.name, each.name+": "+each.condition.Message
		}
	}
	condition := outcomes[decisive]
	condition.Message = message
	return condition
}

// controlPlaneMachines returns the Machines of the control plane with their conditions of a type.
func controlPlaneMachines(source string) func(*state) []part {
	return func(s *state) []part {
		return machineParts(s.workers.controlPlane, source)
	}
}

// workerMachines returns the MachineDeployments, and the MachineSets that stand alone, that have Machines, with their
// conditions of the type ofOwner, and the Machines that stand alone with those of the type ofMachine.
func workerMachines(ofOwner, ofMachine string) func(*state) []part {
	return func(s *state) []part {
		var all []part
		for _, md := range s.workers.deployments {
			if md.Status.Replicas != nil && *md.Status.Replicas > 0 {
				all = append(all, partOf("MachineDeployment", md.Name, md, ofOwner))
			}
		}
		for _, set := range s.workers.sets {
			if set.Status.Replicas == nil || *set.Status.Replicas == 0 {
				continue
			}
			each := partOf("MachineSet", set.Name, set, ofOwner)
			if each.condition.Reason == clusterv1.NoReplicasReason { // none of its Machines has the condition
				each.condition = notReported(ofMachine)
			}
			all = append(all, each)
		}
		return append(all, machineParts(s.workers.machines, ofMachine)...)
	}
}

func machineParts(machines []*clusterv1.Machine, source string) []part {
	all := make([]part, 0, len(machines))
	for _, m := range machines {
		all = append(all, partOf("Machine", m.Name, m, source))
	}
	return all
}

func partOf(kind, name string, object conditions.Getter, source string) part {
	if condition := conditions.Get(object, source); condition != nil {
		return part{kind + " " + name, *condition}
	}
	return part{kind + " " + name, notReported(source)}
}

func notReported(source string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Message: fmt.Sprintf("Condition %s not yet reported", source)}
}

// owners returns what creates Machines and reports the condition: the control plane object, MachineDeployments and MachineSets
// that stand alone. Providers of control planes may leave it out, and a MachineSet does not roll out. A control plane object that
// cannot be read may report it.
func owners(source string) func(*state) []part {
	return func(s *state) []part {
		all := ownersOfWorkers(s.workers, source)
		if s.controlPlane != nil {
			if condition := s.controlPlane.Reported(source); condition != nil {
				all = append(all, part{s.controlPlane.GetKind() + " " + s.controlPlane.GetName(), *condition})
			}
		} else if err := s.controlPlaneErr; err != nil && !apierrors.IsNotFound(err) && !ownership.IsRefused(err) {
			ref := s.cluster.Spec.ControlPlaneRef
			all = append(all, part{ref.Kind + " " + ref.Name, metav1.Condition{Status: metav1.ConditionUnknown, Message: err.Error()}})
		}
		return all
	}
}

func ownersOfWorkers(w workers, source string) []part {
	var all []part
	for _, md := range w.deployments {
		if conditions.Has(md, source) {
			all = append(all, partOf("MachineDeployment", md.Name, md, source))
		}
	}
	for _, set := range w.sets {
		if conditions.Has(set, source) {
			all = append(all, partOf("MachineSet", set.Name, set, source))
		}
	}
	return all
}

// remediating returns the owners of workers with their condition Remediating, and of the Machines that the control plane has or
// that stand alone those that are unhealthy and that their owner is to remediate.
func remediating(s *state) []part {
	all := ownersOfWorkers(s.workers, clusterv1.RemediatingCondition)
	for _, m := range slices.Concat(s.workers.controlPlane, s.workers.machines) {
		if conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			message := conditions.GetMessage(m, clusterv1.MachineOwnerRemediatedCondition)
			all = append(all, part{"Machine " + m.Name, metav1.Condition{Status: metav1.ConditionTrue, Message: message}})
		}
	}
	return all
}
