// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
)

// blocked is for what a user must change. The text is that of the condition, which never holds a secret.
func blocked(recorder events.EventRecorder, config *bootstrapv1.BootstrapConfig, w *waiting) {
	if w.wrong {
		recorder.Eventf(config, nil, corev1.EventTypeWarning, w.reason, "Bootstrap", "%s", w.message)
	}
}

func tokenLeft(recorder events.EventRecorder, config *bootstrapv1.BootstrapConfig, ttl time.Duration) {
	recorder.Eventf(config, nil, corev1.EventTypeWarning, "TokenNotDeleted", "Delete",
		"the bootstrap token could not be deleted in the workload cluster: it expires by itself within %s", ttl)
}

func autoApproved(recorder events.EventRecorder, config *bootstrapv1.BootstrapConfig) {
	recorder.Eventf(config, nil, corev1.EventTypeWarning, "ClientCertificatesAutoApproved", "Bootstrap",
		"the workload cluster approves every client certificate that the holder of a bootstrap token requests, so a stolen token can be used to register as any Node: remove the binding of the ClusterRole system:certificates.k8s.io:certificatesigningrequests:nodeclient to the group system:bootstrappers or %s; Drover approves those of its Machines", token.Group)
}
