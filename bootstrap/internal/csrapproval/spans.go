// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	certificatesv1 "k8s.io/api/certificates/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/tracing"
)

// emitApproval emits how long a request of a kubelet was open. The workload cluster may give it any time.
func (a *approver) emitApproval(csr *certificatesv1.CertificateSigningRequest, machine *clusterv1.Machine) {
	if t := a.tracer.Trace(machine); t.On() {
		requested := csr.CreationTimestamp.Time
		if created := machine.CreationTimestamp.Time; requested.Before(created) {
			requested = created
		}
		t.Call(tracing.Span{
			Name: "certificate.approve", Parent: tracing.CreateMachine, Start: requested, End: time.Now(),
			Attributes: []attribute.KeyValue{attribute.String("drover.certificate.signer", signer(csr))},
		})
	}
}
