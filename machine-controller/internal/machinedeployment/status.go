// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"maps"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// setStatus sums up the MachineSets and derives the conditions.
func setStatus(f *fleet, now time.Time) {
	status := &f.deployment.Status
	status.ObservedGeneration = f.deployment.Generation
	if matches, err := selector(f.deployment); err == nil {
		status.Selector = matches.String()
	}
	status.Replicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.Replicas })
	status.ReadyReplicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.ReadyReplicas })
	status.AvailableReplicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.AvailableReplicas })
	status.UpToDateReplicas = sum(f.sets, func(s *clusterv1.MachineSetStatus) *int32 { return s.UpToDateReplicas })
	status.Versions = versions(f.sets)

	f.frost.Show(f.deployment)
	setPaused(f.deployment, false)
	setAvailable(f)
	setRollingOut(f)
	setScalingUp(f)
	setScalingDown(f, now)
	setMachinesReady(f)
	setMachinesUpToDate(f)
	setRemediating(f)
	setDeleting(f)
	setProgressing(f, now)
	status.SetTypedPhase(phaseOf(f.deployment))
}

// phaseOf names what the deployment is doing.
func phaseOf(md *clusterv1.MachineDeployment) clusterv1.MachineDeploymentPhase {
	switch {
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingUpCondition):
		return clusterv1.MachineDeploymentPhaseScalingUp
	case conditions.IsTrue(md, clusterv1.MachineDeploymentScalingDownCondition):
		return clusterv1.MachineDeploymentPhaseScalingDown
	case conditions.IsTrue(md, clusterv1.MachineDeploymentAvailableCondition):
		return clusterv1.MachineDeploymentPhaseRunning
	}
	return clusterv1.MachineDeploymentPhaseUnknown
}

func sum(sets []*clusterv1.MachineSet, of func(*clusterv1.MachineSetStatus) *int32) *int32 {
	var total int32
	for _, set := range sets {
		if n := of(&set.Status); n != nil {
			total += *n
		}
	}
	return &total
}

// versions adds up the Machines of all sets by kubelet version, sorted.
func versions(sets []*clusterv1.MachineSet) []clusterv1.StatusVersion {
	byVersion := map[string]int32{}
	for _, set := range sets {
		for _, each := range set.Status.Versions {
			byVersion[each.Version] += each.Replicas
		}
	}
	var all []clusterv1.StatusVersion
	for _, version := range slices.SortedFunc(maps.Keys(byVersion), cmp.Compare[string]) {
		all = append(all, clusterv1.StatusVersion{Version: version, Replicas: byVersion[version]})
	}
	return all
}
