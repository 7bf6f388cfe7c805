// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func adopted(recorder events.EventRecorder, set *clusterv1.MachineSet, m *clusterv1.Machine) {
	recorder.Eventf(set, m, corev1.EventTypeNormal, "SuccessfulAdopt", "Adopt", "Adopted Machine %s", m.Name)
}

func released(recorder events.EventRecorder, set *clusterv1.MachineSet, m *clusterv1.Machine) {
	recorder.Eventf(set, m, corev1.EventTypeNormal, "SuccessfulRelease", "Release", "Released Machine %s: its labels no longer match spec.selector", m.Name)
}

func createFailed(recorder events.EventRecorder, set *clusterv1.MachineSet, err error) {
	recorder.Eventf(set, nil, corev1.EventTypeWarning, "FailedCreate", "CreateMachine", "Creating Machines: %v", err)
}

func replacing(recorder events.EventRecorder, set *clusterv1.MachineSet, m *clusterv1.Machine) {
	recorder.Eventf(set, m, corev1.EventTypeNormal, "ReplacingUnhealthy", "Remediate", "Deleted Machine %s to replace it: it failed its health check", m.Name)
}

func replacementRefused(recorder events.EventRecorder, set *clusterv1.MachineSet, why string) {
	recorder.Eventf(set, nil, corev1.EventTypeWarning, "ReplacementRefused", "Remediate", "%s", why)
}
