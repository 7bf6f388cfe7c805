// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/errorreason"
)

// recordRestart logs that the cloud accepted a restart, and creates the event of the Machine.
func recordRestart(ctx context.Context, recorder events.EventRecorder, machine *clusterv1.Machine, which string) {
	ctrl.LoggerFrom(ctx).Info("restarted instance", "providerID", machine.Spec.ProviderID, "message", which)
	recorder.Eventf(machine, nil, corev1.EventTypeNormal, "InstanceRestarted", "Restart", "%s: the Machine is unhealthy", which)
}

// recordHandBack logs that the owner is to replace the Machine, and creates the event of the Machine.
func recordHandBack(ctx context.Context, recorder events.EventRecorder, machine *clusterv1.Machine, because step) {
	ctrl.LoggerFrom(ctx).Info("handed Machine back to its owner", "reason", because.reason, "message", because.message)
	note := "no further restarts, the owner replaces the Machine: " + because.message
	recorder.Eventf(machine, nil, corev1.EventTypeWarning, "RemediationHandedBack", "HandBack", "%s", errorreason.TruncateNote(note))
}
