// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/quantity"
)

func created(recorder events.EventRecorder, md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) {
	recorder.Eventf(md, set, corev1.EventTypeNormal, "SuccessfulCreate", "CreateMachineSet",
		"Created MachineSet %s with %s", set.Name, quantity.Of(*set.Spec.Replicas, "replica"))
}

func scaled(recorder events.EventRecorder, md *clusterv1.MachineDeployment, set *clusterv1.MachineSet, action rollout.Action) {
	recorder.Eventf(md, set, corev1.EventTypeNormal, "SuccessfulScale", "ScaleMachineSet",
		"Scaled MachineSet %s from %d to %d: %s", set.Name, action.From, action.To, action.Reason)
}

func rolledBack(recorder events.EventRecorder, md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) {
	recorder.Eventf(md, nil, corev1.EventTypeNormal, "RolledBack", "Rollback",
		"Rolled the template back to revision %d, of MachineSet %s", revision.Of(set), set.Name)
}

func notRolledBack(recorder events.EventRecorder, md *clusterv1.MachineDeployment, err error) {
	recorder.Eventf(md, nil, corev1.EventTypeWarning, "RollbackFailed", "Rollback", "%v", err)
}
