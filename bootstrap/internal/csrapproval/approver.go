// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/csrapproval/policy"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/claim"
	"drover.io/runtime/predicates"
	"drover.io/runtime/tracing"
)

const (
	// tokenKeyAnnotation on a bootstrap token names the one Node and key that it got a certificate for.
	tokenKeyAnnotation = "bootstrap.drover.io/certificate-key"

	// tokenRequestAnnotation on a bootstrap token is the UID of the request that bound it to its key.
	tokenRequestAnnotation = "bootstrap.drover.io/certificate-request"

	// callTimeout bounds one approval.
	callTimeout = 20 * time.Second

	// nodeRefGrace is how long it may take until a Machine's status names its Node. A request that is of no Machine even
	// then is not one of this project.
	nodeRefGrace = 2 * time.Minute

	// requestLifetime is how old a request for a first client certificate may be. A kubelet waits for 15 minutes, and then makes
	// another with another key; the rest is for the signer, and for clocks that differ.
	requestLifetime = 12 * time.Minute
)

// approver decides on the requests of one workload cluster.
type approver struct {
	client     client.Client
	watch      predicates.WatchFilter
	events     *recorder
	cluster    *clusterv1.Cluster
	connection *workload.Connection
	log        logr.Logger

	// live reads infrastructure machines without a cache.
	live client.Reader
	// claims reads which management cluster acts on the workload cluster.
	claims *claim.Reader
	// trustReported accepts what guests report of themselves.
	trustReported bool
	// tracer emits spans about Machines; nil is off.
	tracer *tracing.Tracer
	// resolve looks a host name up; nil looks nothing up.
	resolve func(ctx context.Context, host string) ([]string, error)

	mu sync.Mutex
	// control is what was last read of the control plane, until stale.
	control policy.Reserved
	stale   time.Time
	// resolved are the addresses of the names of the control plane, as they were last found.
	resolved map[string][]string
}

// review approves a request if that is permitted, and reports once why not. An error means that it cannot be decided on
// yet.
func (a *approver) review(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	node := policy.NodeOf(csr)
	if node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	log := a.log.WithValues("CertificateSigningRequest", klog.KRef("", csr.Name), "Node", klog.KRef("", node))
	holder, elsewhere, err := a.connection.ClaimedElsewhere(ctx, a.claims, client.ObjectKeyFromObject(a.cluster))
	switch {
	case err != nil:
		count(csr, undecided)
		log.V(1).Info("could not decide on certificate request", "message", err.Error())
		return err
	case elsewhere:
		count(csr, claimedElsewhere)
		log.V(1).Info("left certificate request alone", "reason", "another management cluster acts on the workload cluster", "holder", holder)
		return nil
	}
	machine, err := a.decide(ctx, csr, node)
	if machine != nil {
		log = log.WithValues("Machine", klog.KObj(machine))
	}
	refusal, isRefused := errors.AsType[*policy.Refusal](err)
	switch {
	case isRefused:
		count(csr, refused)
		log.V(1).Info("left certificate request alone", "reason", refusal.Reason)
		a.events.notApproved(machine, csr, refusal)
	case err != nil:
		count(csr, undecided)
		log.V(1).Info("could not decide on certificate request", "message", err.Error())
		a.reportForbidden(err)
		return err
	case machine == nil:
		count(csr, foreign)
		log.V(1).Info("left certificate request alone", "reason", "it is not of a Machine of this Cluster")
		if time.Since(csr.CreationTimestamp.Time) >= nodeRefGrace {
			a.events.ignored(a.cluster, csr, node)
		}
	default:
		if err := a.approve(ctx, csr, machine); err != nil {
			count(csr, undecided)
			log.V(1).Info("could not approve certificate request", "message", err.Error())
			a.reportForbidden(err)
			return errors.Join(err, a.release(ctx, csr, node, err))
		}
		count(csr, approved)
		a.emitApproval(csr, machine)
		log.Info("approved certificate request", "signer", csr.Spec.SignerName)
	}
	return nil
}

// reportForbidden makes an event of an error by which a permission is missing, or a policy refuses the approval: API servers
// answer that with other statuses.
func (a *approver) reportForbidden(err error) {
	if isRefusedByServer(err) {
		a.events.decisionForbidden(a.cluster, err)
	}
}

func isRefusedByServer(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// decide returns the Machine that a request must come from, or nil where it is not of one of this Cluster. The error is a
// *policy.Refusal where the request is of that Machine and must not be approved.
func (a *approver) decide(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string) (*clusterv1.Machine, error) {
	if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		machine, h, err := a.find(ctx, func(m *clusterv1.Machine) bool { return m.Status.NodeRef.Name == node })
		if machine == nil || err != nil {
			return nil, err
		}
		return machine, policy.Serving(csr, h)
	}
	secret, err := a.tokenOf(ctx, csr.Spec.Username)
	if secret == nil || err != nil {
		return nil, err
	}
	uid := types.UID(secret.Labels[bootstrapv1.MachineUIDLabel])
	machine, h, err := a.find(ctx, func(m *clusterv1.Machine) bool { return uid != "" && m.UID == uid })
	if machine == nil || err != nil {
		return nil, err
	}
	if err := policy.Client(csr, h); err != nil {
		return machine, err
	}
	if isAbandoned(csr, time.Now()) { // while it was in the queue
		return machine, &policy.Refusal{Reason: "the kubelet does not wait for it any more, and makes another"}
	}
	return machine, a.claim(ctx, csr, node, secret)
}

// isAbandoned reports whether the kubelet that requested a first client certificate has lost its key, or will before the
// certificate is there. The token would be bound to that key, and the host could never join. A kubelet that keeps its key,
// because it does not rotate certificates, gives its request a name and waits for the same one again.
func isAbandoned(csr *certificatesv1.CertificateSigningRequest, now time.Time) bool {
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && csr.GenerateName != "" && now.Sub(csr.CreationTimestamp.Time) >= requestLifetime
}

// tokenOf returns the bootstrap token that a requester was authenticated by; nil if it was another way.
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

// claim binds a token to one key: it writes the key into the token before anything is approved, so that an attacker with a
// stolen token, who has another key, comes too late. So does a kubelet that was restarted between the approval and the
// certificate, since it has a new key too. The error is a *policy.Refusal where the token is not valid for this request.
func (a *approver) claim(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string, secret *corev1.Secret) error {
	_, err := a.connection.Core.Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err == nil:
		return &policy.Refusal{Reason: fmt.Sprintf("the Node %q exists already: delete it if it is a leftover", node)}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Node: %w", err)
	}
	key, err := policy.Key(csr)
	if err != nil {
		return err
	}
	key = node + "/" + key
	switch known := secret.Annotations[tokenKeyAnnotation]; known {
	case key:
		return nil
	case "":
		claimed := secret.DeepCopy()
		metav1.SetMetaDataAnnotation(&claimed.ObjectMeta, tokenKeyAnnotation, key)
		metav1.SetMetaDataAnnotation(&claimed.ObjectMeta, tokenRequestAnnotation, string(csr.UID))
		if err := a.patchToken(ctx, secret, claimed); err != nil {
			return fmt.Errorf("writing the key into the bootstrap token: %w", err)
		}
		return nil
	default:
		return &policy.Refusal{Reason: "the bootstrap token of the Machine has been used for another Node or key: if the host has lost its key, delete the Machine"}
	}
}

// release unbinds a token from the key of a request whose approval the API server has refused, so that there is no certificate
// for it. Until approvals are permitted, the kubelet may have given the request up and made another with another key. Only the
// request that bound the token unbinds it: whoever has stolen the token can read the host's request and make the same one again,
// in a form that a policy does not let pass, while the host's own is approved.
func (a *approver) release(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string, cause error) error {
	if !isRefusedByServer(cause) || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	secret, err := a.tokenOf(ctx, csr.Spec.Username)
	if secret == nil || err != nil {
		return err
	}
	key, err := policy.Key(csr)
	if err != nil || secret.Annotations[tokenKeyAnnotation] != node+"/"+key || secret.Annotations[tokenRequestAnnotation] != string(csr.UID) {
		return err
	}
	released := secret.DeepCopy()
	delete(released.Annotations, tokenKeyAnnotation)
	delete(released.Annotations, tokenRequestAnnotation)
	if err := a.patchToken(ctx, secret, released); err != nil {
		return fmt.Errorf("removing the key from the bootstrap token: %w", err)
	}
	return nil
}

// patchToken changes a bootstrap token, unless it is another one by now than the one that was read.
func (a *approver) patchToken(ctx context.Context, read, changed *corev1.Secret) error {
	patch, err := client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}).Data(changed)
	if err != nil {
		return err
	}
	_, err = a.connection.Core.Secrets(read.Namespace).Patch(ctx, read.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// find returns the Machine of this Cluster that matches, and its host.
func (a *approver) find(ctx context.Context, matches func(*clusterv1.Machine) bool) (*clusterv1.Machine, policy.Identity, error) {
	machines := &clusterv1.MachineList{}
	if err := a.client.List(ctx, machines, client.InNamespace(a.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: a.cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, policy.Identity{}, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; a.watch.Matches(m) && m.DeletionTimestamp.IsZero() && matches(m) {
			h, err := a.expectedIdentity(ctx, m, machines.Items)
			return m, h, err
		}
	}
	return nil, policy.Identity{}, nil
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
