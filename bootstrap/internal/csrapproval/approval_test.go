// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/testenv"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/metric/metrictest"
)

// Shared by all tests of this package: a management cluster with the controller running under the RBAC that ships
// with it, and a workload cluster in which no other controller approves.
var management, workloads *testenv.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	if management, err = testenv.StartManagement(); err == nil {
		workloads, err = testenv.StartWorkload()
	}
	stopped := make(chan error, 1)
	if err == nil {
		err = startManager(ctx, stopped)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		stopped <- nil
	}
	cancel()
	err = errors.Join(err, <-stopped)
	for _, c := range []*testenv.Cluster{management, workloads} {
		if c != nil {
			err = errors.Join(err, c.Stop())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func startManager(ctx context.Context, stopped chan<- error) error {
	s, err := envtest.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(management.Manager(), ctrl.Options{Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client:      mgr.GetClient(),
		Connections: workload.NewConnections(mgr.GetAPIReader(), clock.RealClock{}),
		Events:      mgr.GetEventRecorder("drover-bootstrap"),
		Live:        mgr.GetAPIReader(),
		Resolve: func(_ context.Context, host string) ([]string, error) {
			if host == "api.example.test" {
				return []string{"10.9.0.250"}, nil
			}
			return nil, errors.New("no such host")
		},
	}
	if err := r.Register(mgr); err != nil {
		return err
	}
	go func() { stopped <- mgr.Start(ctx) }()
	return nil
}

// newMachine makes a Cluster with one Machine whose Node has joined, in a namespace of its own.
func newMachine(t *testing.T, name string) *clusterv1.Machine {
	t.Helper()
	return newMachineIn(t, name, workloads.Kubeconfig)
}

func newMachineIn(t *testing.T, name string, kubeconfig []byte) *clusterv1.Machine {
	t.Helper()
	machine := newMachineWithoutConfig(t, name, kubeconfig)
	meta := metav1.ObjectMeta{Name: name, Namespace: machine.Namespace, Labels: machine.Labels}
	create(t, management.Client, &bootstrapv1.BootstrapConfig{ObjectMeta: meta, Spec: bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu}})
	return machine
}

func newMachineWithoutConfig(t *testing.T, name string, kubeconfig []byte) *clusterv1.Machine {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	create(t, management.Client, namespace)
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}
	create(t, management.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "c1-kubeconfig", Namespace: namespace.Name}, Data: map[string][]byte{"value": kubeconfig},
	})
	create(t, management.Client, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: namespace.Name},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example.test", Port: 6443}},
	})
	machine := &clusterv1.Machine{ObjectMeta: *meta.DeepCopy(), Spec: clusterv1.MachineSpec{
		ClusterName:       "c1",
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: name}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: name},
	}}
	create(t, management.Client, machine)
	setCloudAddresses(t, machine, "10.9.0.1")
	machine.Status.NodeRef.Name = name
	machine.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.9.0.1"}}
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

// setCloudAddresses sets the addresses that the cloud assigned to a Machine.
func setCloudAddresses(t *testing.T, machine *clusterv1.Machine, addresses ...string) {
	t.Helper()
	infra := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "infrastructure.drover.io/v1alpha1", "kind": "SimMachine", "spec": map[string]any{}}}
	infra.SetNamespace(machine.Namespace)
	infra.SetName(machine.Name)
	infra.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))})
	if err := management.Client.Create(t.Context(), infra); apierrors.IsAlreadyExists(err) {
		err = management.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra)
		if err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedStringSlice(infra.Object, addresses, "status", "cloudAddresses"); err != nil {
		t.Fatal(err)
	}
	if err := management.Client.Status().Update(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T: %v", object, err)
	}
}

// requestServing makes a kubelet's request for a serving certificate, as the Node itself.
func requestServing(t *testing.T, node string, addresses ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request := &x509.CertificateRequest{DNSNames: []string{node}}
	for _, a := range addresses {
		request.IPAddresses = append(request.IPAddresses, net.ParseIP(a))
	}
	return send(t, kubeletOf(node), node, request, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth)
}

// kubeletOf is the client configuration of the kubelet of a Node.
func kubeletOf(node string) *rest.Config {
	config := rest.CopyConfig(workloads.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
	return config
}

// newRequest is a request of a kubelet for the certificate of a Node, with a new key.
func newRequest(t *testing.T, node string, request *x509.CertificateRequest, signer string, usage certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Subject = pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
}

// send makes a request of a kubelet for the certificate of a Node.
func send(t *testing.T, as *rest.Config, node string, request *x509.CertificateRequest, signer string, usage certificatesv1.KeyUsage, changes ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c, err := client.New(as, client.Options{Scheme: workloads.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	csr := newRequest(t, node, request, signer, usage)
	for _, change := range changes {
		change(csr)
	}
	create(t, c, csr)
	return csr
}

func decision(t *testing.T, csr *certificatesv1.CertificateSigningRequest) string {
	t.Helper()
	if err := workloads.Client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		t.Fatal(err)
	}
	for _, c := range csr.Status.Conditions {
		return string(c.Type) + ": " + c.Reason
	}
	return ""
}

func TestServingCertificateIsApproved(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	newMachine(t, "approved-1")
	before := reviewsOf(t, "approved")
	csr := requestServing(t, "approved-1", "10.9.0.1")
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
	g.Eventually(func() float64 { return reviewsOf(t, "approved") }).Should(gomega.BeNumerically(">", before))
}

// reviewsOf are how often a request for a serving certificate was decided on so.
func reviewsOf(t *testing.T, decision string) float64 {
	t.Helper()
	return metrictest.Samples(t, metrictest.Of(t, reviewsTotal))["drover_bootstrap_certificate_reviews_total decision="+decision+" signer=serving"]
}

// TestRequestIsApprovedWhereTheLabelComesLater: a BootstrapConfig that a user created without the label of its Cluster gets
// it when its Machine adopts it.
func TestRequestIsApprovedWhereTheLabelComesLater(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	newMachine(t, "labelled-2")
	first := requestServing(t, "labelled-2", "10.9.0.1")
	g.Eventually(func() string { return decision(t, first) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified")) // the controller runs
	machine := newMachineWithoutConfig(t, "labelled-1", workloads.Kubeconfig)
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}, Spec: bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu}}
	create(t, management.Client, config)
	csr := requestServing(t, "labelled-1", "10.9.0.1")
	g.Consistently(func() string { return decision(t, csr) }, time.Second, 100*time.Millisecond).Should(gomega.BeEmpty())
	config.Labels = machine.Labels
	if err := management.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
}

func TestRequestForAForeignAddressIsLeftAlone(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	machine := newMachine(t, "refused-1")
	before := reviewsOf(t, "refused")
	csr := requestServing(t, "refused-1", "10.9.0.1", "10.9.0.99")
	g.Eventually(func() string { return notes(t, machine.Namespace) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.ContainSubstring(
		"CertificateRequestNotApproved: certificate request " + csr.Name + " of the workload cluster was not approved: the Machine does not have the address 10.9.0.99"))
	if got := decision(t, csr); got != "" {
		t.Errorf("decision = %q, want none", got)
	}
	if after := reviewsOf(t, "refused"); after <= before {
		t.Errorf("%v refusals are counted, before it were %v", after, before)
	}
}

func TestRequestIsApprovedOnceTheMachineHasItsNode(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	machine := newMachine(t, "late-1")
	machine.Status.NodeRef.Name = ""
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	csr := requestServing(t, "late-1", "10.9.0.1")
	machine.Status.NodeRef.Name = "late-1"
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
}

func notes(t *testing.T, namespace string) string {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := management.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Note)
	}
	return strings.Join(all, "\n")
}

func TestMissingPermissionToWatchIsReported(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	config, err := clientcmd.Load(workloads.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "limited"
	}
	limited, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	machine := newMachineIn(t, "forbidden-1", limited)
	g.Eventually(func() string { return notes(t, machine.Namespace) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.ContainSubstring("CertificateApprovalForbidden: "))
}
