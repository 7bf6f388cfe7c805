// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"drover.io/runtime/metric"
)

// What is decided about a request.
const (
	approved         = "approved"
	refused          = "refused"
	foreign          = "foreign"
	claimedElsewhere = "claimed_elsewhere"
	undecided        = "error"
)

var reviewsTotal = metric.NewCounter(metric.Options{
	Name: "drover_bootstrap_certificate_reviews_total", Stability: metric.Alpha,
	Help: "Reviews of certificate requests of kubelets, by signer and decision: approved, refused to a Machine, foreign because no Machine of the Cluster made it, " +
		"left to another management cluster, or an error by which nothing could be decided. A request that is not approved is reviewed again.",
	Labels: []metric.Label{metric.Fixed("signer", "client", "serving"), metric.Fixed("decision", approved, refused, foreign, claimedElsewhere, undecided)},
})

// count counts the decision about a request.
func count(csr *certificatesv1.CertificateSigningRequest, decision string) {
	reviewsTotal.Inc(signer(csr), decision)
}

// signer is the signer of a request in metrics and spans.
func signer(csr *certificatesv1.CertificateSigningRequest) string {
	if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		return "serving"
	}
	return "client"
}
