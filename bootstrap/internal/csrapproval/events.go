// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/bootstrap/internal/csrapproval/policy"
	"drover.io/runtime/expiring"
	"drover.io/runtime/requesterror"
)

const (
	// maxReported is the number of requests with an event that are stored. Beyond that the oldest is dropped, and
	// may get another event.
	maxReported = 1000

	// maxKeyLength is how long the stored key of an event may be: a UID has 36 characters.
	maxKeyLength = 64

	// eventPeriod and eventBurst bound the events of one workload cluster: the holder of a token, or of a Node's
	// credentials, can create any number of requests, and events are written to the management cluster.
	eventPeriod, eventBurst = 30 * time.Second, 20

	// problemPeriod is how often a problem of the cluster itself has an event while it lasts. API servers keep events for an
	// hour by default.
	problemPeriod = 30 * time.Minute
)

// recorder makes the events of one workload cluster: one per request, and one per period for a problem of the cluster itself.
type recorder struct {
	events.EventRecorder

	mu sync.Mutex
	// reported are the requests that an event was made for.
	reported expiring.Map[types.UID, struct{}]
	// problems are those of the cluster that an event was made for.
	problems expiring.Limiter[string]
	limit    *rate.Limiter
}

func newRecorder(to events.EventRecorder) *recorder {
	return &recorder{
		EventRecorder: to, limit: rate.NewLimiter(rate.Every(eventPeriod), eventBurst),
		reported: expiring.Map[types.UID, struct{}]{Max: maxReported},
		problems: expiring.Limiter[string]{Period: problemPeriod},
	}
}

// due reports whether no event was made for a request yet and one may be made now, and notes that it is.
func (r *recorder) due(request types.UID) bool {
	if len(request) > maxKeyLength { // an API server may give any UID
		request = types.UID(fmt.Sprintf("%x", sha256.Sum256([]byte(request))))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported.Has(request) || !r.limit.Allow() {
		return false // a request without an event yet is reviewed again
	}
	r.reported.Set(request, struct{}{})
	return true
}

// problemDue reports whether an event of a problem of the cluster is due and may be made now, and notes that it is.
func (r *recorder) problemDue(problem string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problems.Remaining(problem) == 0 && r.limit.Allow() && r.problems.Allow(problem)
}

// notApproved is for a request of a Machine that must not be approved.
func (r *recorder) notApproved(machine *clusterv1.Machine, csr *certificatesv1.CertificateSigningRequest, refusal *policy.Refusal) {
	if !r.due(csr.UID) {
		return
	}
	r.Eventf(machine, nil, corev1.EventTypeWarning, "CertificateRequestNotApproved", "Approve",
		"certificate request %s of the workload cluster was not approved: %s", csr.Name, requesterror.Truncate(refusal.Reason))
}

// ignored is for a request that is not of a Machine.
func (r *recorder) ignored(cluster *clusterv1.Cluster, csr *certificatesv1.CertificateSigningRequest, node string) {
	if !r.due(csr.UID) {
		return
	}
	r.Eventf(cluster, nil, corev1.EventTypeNormal, "CertificateRequestNotApproved", "Approve",
		"certificate request %s for Node %q of the workload cluster was ignored: it is not from a Machine of this Cluster", csr.Name, requesterror.Truncate(node))
}

// tooLate is for a request that was old already when it was first seen.
func (r *recorder) tooLate(cluster *clusterv1.Cluster, request string) {
	if r.problemDue("request too late") {
		r.Eventf(cluster, nil, corev1.EventTypeWarning, "CertificateRequestNotApproved", "Approve",
			"certificate request %s of the workload cluster was not approved: it is %s old or older, and the kubelet makes another 15 minutes after it: if all are so old, compare the clocks of the management and the workload cluster", request, requestLifetime)
	}
}

// decisionForbidden is for a permission that is missing to decide or to approve, in the management or the workload cluster,
// and for a policy that refuses it.
func (r *recorder) decisionForbidden(cluster *clusterv1.Cluster, err error) {
	if r.problemDue("decision forbidden") {
		r.Eventf(cluster, nil, corev1.EventTypeWarning, "CertificateApprovalForbidden", "Approve",
			"certificate requests cannot be decided on: %s: apply config/workload of the bootstrap controller to the workload cluster as its administrator, or permit it in the policies there", requesterror.Truncate(err.Error()))
	}
}

// watchForbidden is for the permission that is missing to see requests.
func (r *recorder) watchForbidden(cluster *clusterv1.Cluster) {
	if r.problemDue("watch forbidden") {
		r.Eventf(cluster, nil, corev1.EventTypeWarning, "CertificateApprovalForbidden", "Watch",
			"the kubeconfig's user may not watch certificate requests, so that kubelets get no serving certificates: apply config/workload of the bootstrap controller to the workload cluster as its administrator")
	}
}

// tooManyRequests is for open requests that are not kept in memory.
func (r *recorder) tooManyRequests(cluster *clusterv1.Cluster) {
	if r.problemDue("too many requests") {
		r.Eventf(cluster, nil, corev1.EventTypeWarning, "TooManyCertificateRequests", "Watch",
			"more certificate requests of kubelets are open in the workload cluster, or in all of this namespace, than are kept in memory: the others are decided on when these are; delete those that are not needed")
	}
}

// tooManyUnread is for requests that are not read for now.
func (r *recorder) tooManyUnread(cluster *clusterv1.Cluster) {
	if r.problemDue("requests not read") {
		r.Eventf(cluster, nil, corev1.EventTypeWarning, "TooManyCertificateRequests", "Watch",
			"the workload clusters of this namespace have more certificate requests than are read at a time: they are read later; delete those that are not needed, and find out what creates them")
	}
}
