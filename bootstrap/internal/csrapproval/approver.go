// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/csrapproval/policy"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/expiring"
	"drover.io/runtime/predicates"
	"drover.io/runtime/requesterror"
)

const (
	// tokenKeyAnnotation on a bootstrap token names the one Node and key that it got a certificate for.
	tokenKeyAnnotation = "bootstrap.drover.io/certificate-key"

	// maxReported is how many requests are remembered that an event was made for. Beyond that the oldest is dropped, and
	// may get another event.
	maxReported = 1000

	// longestKey is how long what is remembered of an event may be: a UID has 36 characters.
	longestKey = 64

	// eventPeriod and eventBurst bound the events of one workload cluster: whoever has a token, or a Node, of it can
	// make as many requests as they like, and events are written to the management cluster.
	eventPeriod, eventBurst = 30 * time.Second, 20

	// callTimeout bounds one approval.
	callTimeout = 20 * time.Second

	// acquaintance is how long a Machine's Node may take to be known as such. A request that is still of no Machine
	// is somebody else's.
	acquaintance = 2 * time.Minute
)

// approver decides on the requests of one workload cluster.
type approver struct {
	client     client.Client
	watch      predicates.WatchFilter
	recorder   events.EventRecorder
	cluster    *clusterv1.Cluster
	connection *workload.Connection
	log        logr.Logger

	// live reads infrastructure machines without a cache.
	live client.Reader
	// trustReported believes what guests report of themselves.
	trustReported bool
	// resolve looks a host name up; nil looks nothing up.
	resolve func(ctx context.Context, host string) ([]string, error)

	mu sync.Mutex
	// reported are the requests that an event was made for.
	reported expiring.Map[types.UID, struct{}]
	// events are those that may still be made.
	events *rate.Limiter
	// control is what is known of the control plane, until stale.
	control policy.Taken
	stale   time.Time
	// resolved are the addresses of the names of the control plane, as they were last found.
	resolved map[string][]string
}

// look approves a request if it may, and says once why not. An error means that it cannot be decided on yet.
func (a *approver) look(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	node := policy.NodeOf(csr)
	if node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	log := a.log.WithValues("request", csr.Name, "node", node)
	machine, refusal, err := a.decide(ctx, csr, node)
	switch {
	case err != nil:
		log.V(1).Info("certificate request cannot be decided on yet", "cause", err.Error())
		if apierrors.IsForbidden(err) {
			a.undecidable(err)
		}
		return err
	case machine == nil:
		log.V(1).Info("left certificate request alone: it is not of a Machine of this Cluster")
		if time.Since(csr.CreationTimestamp.Time) >= acquaintance {
			a.pass(csr, node)
		}
	case refusal != nil:
		a.report(machine, csr, refusal)
	default:
		if err := a.approve(ctx, csr, machine); err != nil {
			log.V(1).Info("certificate request cannot be approved yet", "cause", err.Error())
			return err
		}
		log.Info("approved certificate request", "machine", machine.Name, "signer", csr.Spec.SignerName)
	}
	return nil
}

// decide finds the Machine that a request must come from. A nil Machine means that it is not one of ours.
func (a *approver) decide(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string) (*clusterv1.Machine, error, error) {
	if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		machine, h, err := a.find(ctx, func(m *clusterv1.Machine) bool { return m.Status.NodeRef.Name == node })
		if machine == nil || err != nil {
			return nil, nil, err
		}
		return machine, policy.Serving(csr, h), nil
	}
	secret, err := a.tokenOf(ctx, csr.Spec.Username)
	if secret == nil || err != nil {
		return nil, nil, err
	}
	uid := types.UID(secret.Labels[bootstrapv1.MachineUIDLabel])
	machine, h, err := a.find(ctx, func(m *clusterv1.Machine) bool { return uid != "" && m.UID == uid })
	if machine == nil || err != nil {
		return nil, nil, err
	}
	refusal := policy.Client(csr, h)
	if refusal == nil {
		refusal, err = a.claim(ctx, csr, node, secret)
	}
	return machine, refusal, err
}

// tokenOf is the bootstrap token that a requester has shown; nil if it has shown none.
func (a *approver) tokenOf(ctx context.Context, username string) (*corev1.Secret, error) {
	id, found := strings.CutPrefix(username, bootstrapapi.BootstrapUserPrefix)
	if !found || id == "" {
		return nil, nil
	}
	secret, err := a.connection.Core.Secrets(metav1.NamespaceSystem).Get(ctx, bootstrapapi.BootstrapTokenSecretPrefix+id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading bootstrap token: %w", err)
	}
	if secret.Type != corev1.SecretTypeBootstrapToken {
		return nil, nil
	}
	return secret, nil
}

// claim makes sure that a token gets one key one certificate: it writes the key down in the token before anything is
// approved. A kubelet that restarts asks for the same key again, and whoever has stolen the token has another one.
func (a *approver) claim(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string, secret *corev1.Secret) (refusal, err error) {
	_, err = a.connection.Core.Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err == nil:
		return &policy.Refusal{Reason: fmt.Sprintf("the Node %q exists already: delete it if it is a leftover", node)}, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Node: %w", err)
	}
	key, err := policy.Key(csr)
	if err != nil {
		return err, nil
	}
	key = node + "/" + key
	switch known := secret.Annotations[tokenKeyAnnotation]; known {
	case key:
		return nil, nil
	case "":
		claimed := secret.DeepCopy()
		metav1.SetMetaDataAnnotation(&claimed.ObjectMeta, tokenKeyAnnotation, key)
		patch, err := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}).Data(claimed)
		if err != nil {
			return nil, err
		}
		if _, err := a.connection.Core.Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("writing the key into the bootstrap token: %w", err)
		}
		return nil, nil
	default:
		return &policy.Refusal{Reason: "the bootstrap token of the Machine has been used for another Node or key: if the host has lost its key, delete the Machine"}, nil
	}
}

// find returns the Machine of ours that matches, and what is known of its host.
func (a *approver) find(ctx context.Context, matches func(*clusterv1.Machine) bool) (*clusterv1.Machine, policy.Host, error) {
	machines := &clusterv1.MachineList{}
	if err := a.client.List(ctx, machines, client.InNamespace(a.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: a.cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, policy.Host{}, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; a.watch.Matches(m) && m.DeletionTimestamp.IsZero() && matches(m) {
			h, err := a.host(ctx, m, machines.Items)
			return m, h, err
		}
	}
	return nil, policy.Host{}, nil
}

func (a *approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, machine *clusterv1.Machine) error {
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  "MachineVerified",
		Message: "every name and address belongs to Machine " + machine.Namespace + "/" + machine.Name,
	})
	_, err := a.connection.Certificates.CertificateSigningRequests().UpdateApproval(ctx, approved.Name, approved, metav1.UpdateOptions{})
	return err
}

func (a *approver) report(machine *clusterv1.Machine, csr *certificatesv1.CertificateSigningRequest, refusal error) {
	if !a.isNews(csr.UID) {
		return
	}
	a.recorder.Eventf(machine, nil, corev1.EventTypeWarning, "CertificateRequestLeftAlone", "Approve",
		"certificate request %s of the workload cluster was not approved: %s", csr.Name, refusal.Error())
}

// pass tells of a request that somebody else has to decide on.
func (a *approver) pass(csr *certificatesv1.CertificateSigningRequest, node string) {
	if !a.isNews(csr.UID) {
		return
	}
	a.recorder.Eventf(a.cluster, nil, corev1.EventTypeNormal, "CertificateRequestLeftAlone", "Approve",
		"certificate request %s for Node %q of the workload cluster was left to others: it does not come from a Machine of this Cluster", csr.Name, node)
}

// isNews reports whether no event was made for a request yet and one may be made now, and remembers that it is.
func (a *approver) isNews(request types.UID) bool {
	if len(request) > longestKey { // an API server may give any UID
		request = types.UID(fmt.Sprintf("%x", sha256.Sum256([]byte(request))))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.events == nil {
		a.events = rate.NewLimiter(rate.Every(eventPeriod), eventBurst)
		a.reported.Max = maxReported
	}
	if a.reported.Has(request) || !a.events.Allow() {
		return false // one that there is no event for yet is looked at again
	}
	a.reported.Set(request, struct{}{})
	return true
}

// undecidable makes one event of a permission that is missing, here or in the workload cluster.
func (a *approver) undecidable(err error) {
	if a.isNews("undecidable") {
		a.recorder.Eventf(a.cluster, nil, corev1.EventTypeWarning, "CertificateApprovalForbidden", "Approve",
			"certificate requests cannot be decided on: %s: apply config/workload of the bootstrap controller to the workload cluster as its administrator", requesterror.Truncate(err.Error()))
	}
}

// cannotWatch takes note of why requests cannot be listed or watched.
func (a *approver) cannotWatch(err error) {
	a.log.V(1).Info("cannot watch certificate requests", "cause", err.Error())
	if apierrors.IsForbidden(err) {
		a.forbidden()
	}
}

// tooMany makes an event of open requests that there is no room for.
func (a *approver) tooMany() {
	if a.isNews("too many") {
		a.recorder.Eventf(a.cluster, nil, corev1.EventTypeWarning, "TooManyCertificateRequests", "Watch",
			"more certificate requests of kubelets are open in the workload cluster, or in all of this namespace, than are kept in memory: the others are decided on when these are; delete those that nobody needs")
	}
}

// forbidden says once that the kubeconfig does not let us see requests.
func (a *approver) forbidden() {
	if a.isNews("forbidden") {
		a.recorder.Eventf(a.cluster, nil, corev1.EventTypeWarning, "CertificateApprovalForbidden", "Watch",
			"the kubeconfig's user may not watch certificate requests, so that kubelets get no serving certificates: apply config/workload of the bootstrap controller to the workload cluster as its administrator")
	}
}
