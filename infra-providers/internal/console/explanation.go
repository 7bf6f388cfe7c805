// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// explanation is what the condition HostJoined says.
type explanation struct {
	status          metav1.ConditionStatus
	reason, message string
}

// explain is what a console means.
func explain(r report, secrets redactor) explanation {
	reason, message := meaning(r)
	if quoted := secrets.lines(r.lines); len(quoted) > 0 {
		message += fmt.Sprintf("; the console has %q", strings.Join(quoted, " | "))
	}
	return explanation{status: metav1.ConditionFalse, reason: reason, message: message}
}

func meaning(r report) (reason, message string) {
	switch r.state {
	case stateFailed:
		return infrav1.BootstrapFailedReason, fmt.Sprintf("the bootstrap failed in the step %s; correct its configuration and delete the Machine", r.step)
	case stateRunning:
		return infrav1.BootstrapRunningReason, fmt.Sprintf("the bootstrap is in the step %s", r.step)
	case stateRetrying:
		return infrav1.BootstrapRunningReason, fmt.Sprintf("the bootstrap retries the step %s", r.step)
	case stateSucceeded:
		return infrav1.KubeletNotJoinedReason, "the bootstrap succeeded, and no Node with the providerID of the instance exists; see the log of the kubelet on the host"
	case stateWaiting:
		return infrav1.KubeletNotJoinedReason, "the bootstrap succeeded, and the kubelet has no certificate: it does not reach or trust the API server, or its request is not approved"
	default:
		return infrav1.BootstrapNotStartedReason, "the console does not show a begin of the bootstrap: the image, its cloud-init or Ignition, or the network of the instance"
	}
}
