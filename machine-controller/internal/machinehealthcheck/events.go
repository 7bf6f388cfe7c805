// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func markedUnhealthy(recorder events.EventRecorder, m *clusterv1.Machine) {
	recorder.Eventf(m, nil, corev1.EventTypeNormal, "MachineMarkedUnhealthy", "MarkUnhealthy",
		"Machine %s is to be replaced: %s", m.Name, conditions.GetMessage(m, clusterv1.MachineHealthCheckSucceededCondition))
}

// report emits an event once when remediation is restricted, as a whole or in a failure domain.
func report(recorder events.EventRecorder, before, after *clusterv1.MachineHealthCheck) {
	for kind, reason := range map[string]string{
		clusterv1.MachineHealthCheckRemediationAllowedCondition: "RemediationRestricted",
		FailureDomainsHealthyCondition:                          FailureDomainDownReason,
	} {
		was, is := conditions.Get(before, kind), conditions.Get(after, kind)
		if is == nil || is.Status != metav1.ConditionFalse || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
			continue
		}
		recorder.Eventf(after, nil, corev1.EventTypeWarning, reason, "Remediate", "%s", is.Message)
	}
}
