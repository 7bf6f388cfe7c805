// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
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
	"k8s.io/client-go/tools/events"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/csrapproval/verdict"
	"drover.io/bootstrap/internal/workload"
)

const (
	// callTimeout bounds one approval.
	callTimeout = 20 * time.Second

	// patience is how long the cluster itself has to approve a client certificate, which most clusters do.
	patience = 5 * time.Second

	// acquaintance is how long a Machine's Node may take to be known as such. A request that is still of no Machine
	// is somebody else's.
	acquaintance = 2 * time.Minute
)

// approver decides on the requests of one workload cluster.
type approver struct {
	client     client.Client
	recorder   events.EventRecorder
	cluster    *clusterv1.Cluster
	connection *workload.Connection
	log        logr.Logger

	// told are the requests that an event was made for.
	mu   sync.Mutex
	told map[types.UID]bool
}

// look approves a request if it may, and says once why not.
func (a *approver) look(ctx context.Context, o any) {
	csr, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(csr.Status.Conditions) > 0 {
		return
	}
	node := verdict.NodeOf(csr)
	if node == "" || csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && time.Since(csr.CreationTimestamp.Time) < patience {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	log := a.log.WithValues("request", csr.Name, "node", node)
	machine, refusal, err := a.decide(ctx, csr, node)
	switch {
	case err != nil:
		log.V(1).Info("certificate request cannot be decided on yet", "cause", err.Error())
	case machine == nil:
		log.V(1).Info("left certificate request alone: it is not of a Machine of this Cluster")
		if time.Since(csr.CreationTimestamp.Time) >= acquaintance {
			a.pass(csr, node)
		}
	case refusal != nil:
		a.tell(machine, csr, refusal)
	default:
		if err := a.approve(ctx, csr, machine); err != nil {
			log.V(1).Info("certificate request cannot be approved yet", "cause", err.Error())
			return
		}
		log.Info("approved certificate request", "machine", machine.Name, "signer", csr.Spec.SignerName)
	}
}

// decide finds the Machine that a request must come from. A nil Machine means that it is not one of ours.
func (a *approver) decide(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string) (*clusterv1.Machine, error, error) {
	if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		machine, err := a.find(ctx, func(m *clusterv1.Machine) bool { return m.Status.NodeRef.Name == node })
		if machine == nil || err != nil {
			return nil, nil, err
		}
		return machine, verdict.Serving(csr, host(machine)), nil
	}
	uid, err := a.tokenOwner(ctx, csr.Spec.Username)
	if uid == "" || err != nil {
		return nil, nil, err
	}
	machine, err := a.find(ctx, func(m *clusterv1.Machine) bool { return m.UID == uid })
	if machine == nil || err != nil {
		return nil, nil, err
	}
	return machine, verdict.Client(csr, host(machine)), nil
}

// tokenOwner is the UID of the Machine whose bootstrap token a requester has shown.
func (a *approver) tokenOwner(ctx context.Context, username string) (types.UID, error) {
	id, found := strings.CutPrefix(username, bootstrapapi.BootstrapUserPrefix)
	if !found || id == "" {
		return "", nil
	}
	secret, err := a.connection.Core.Secrets(metav1.NamespaceSystem).Get(ctx, bootstrapapi.BootstrapTokenSecretPrefix+id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading bootstrap token: %w", err)
	}
	return types.UID(secret.Labels[bootstrapv1.MachineUIDLabel]), nil
}

func (a *approver) find(ctx context.Context, matches func(*clusterv1.Machine) bool) (*clusterv1.Machine, error) {
	machines := &clusterv1.MachineList{}
	if err := a.client.List(ctx, machines, client.InNamespace(a.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: a.cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.DeletionTimestamp.IsZero() && matches(m) {
			return m, nil
		}
	}
	return nil, nil
}

// host is what the infrastructure says of a Machine. The Machine's own name counts: infrastructure providers name
// instances after it, and nobody else can take it. So does the name of its Node, which the core found by provider ID.
func host(m *clusterv1.Machine) verdict.Host {
	h := verdict.Host{NodeName: m.Status.NodeRef.Name, Names: []string{m.Name}}
	if h.NodeName != "" {
		h.Names = append(h.Names, h.NodeName)
	}
	for _, address := range m.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineInternalIP, clusterv1.MachineExternalIP:
			h.Addresses = append(h.Addresses, address.Address)
		case clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS:
			h.Names = append(h.Names, address.Address)
		}
	}
	return h
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

func (a *approver) tell(machine *clusterv1.Machine, csr *certificatesv1.CertificateSigningRequest, refusal error) {
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

// isNews tells whether nothing was said of a request yet, and remembers that something is now.
func (a *approver) isNews(request types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told[request] {
		return false
	}
	if a.told == nil || len(a.told) > 1000 {
		a.told = map[types.UID]bool{}
	}
	a.told[request] = true
	return true
}

// forbidden says once that the kubeconfig does not let us see requests.
func (a *approver) forbidden() {
	if a.isNews("forbidden") {
		a.recorder.Eventf(a.cluster, nil, corev1.EventTypeWarning, "CertificateApprovalForbidden", "Watch",
			"the kubeconfig's user may not watch certificate requests, so that kubelets get no serving certificates: apply config/workload of the bootstrap controller to the workload cluster as its administrator")
	}
}
