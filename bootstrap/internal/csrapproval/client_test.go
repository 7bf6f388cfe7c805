// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
)

// waitingMachine has no Node yet, and a bootstrap token in the workload cluster, with which the kubelet is who it is.
func waitingMachine(t *testing.T, name string) (*clusterv1.Machine, *rest.Config) {
	t.Helper()
	machine := newMachine(t, name)
	machine.Status.NodeRef.Name = ""
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(workloads.Admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.EnsureAccess(t.Context(), admin.RbacV1(), false); err != nil {
		t.Fatal(err)
	}
	made, err := token.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.Ensure(t.Context(), admin.CoreV1(), token.Request{Token: made, MachineUID: machine.UID, TTL: time.Hour, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(workloads.Admin)
	config.BearerToken = made.Value()
	requests := authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create"}
	if err := envtest.AwaitAccess(t.Context(), config, requests); err != nil {
		t.Fatal(err)
	}
	return machine, config
}

func requestFirst(t *testing.T, as *rest.Config, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return send(t, as, node, &x509.CertificateRequest{}, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
}

// firstRequest is one for a first client certificate, with a new key.
func firstRequest(t *testing.T, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return newRequest(t, node, &x509.CertificateRequest{}, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
}

func TestFirstClientCertificateIsApproved(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	_, kubelet := waitingMachine(t, "first-1")
	csr := requestFirst(t, kubelet, "first-1")
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
}

func TestRequestForTheNameOfAnotherMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	machine, kubelet := waitingMachine(t, "noisy-1")
	csr := requestFirst(t, kubelet, "noisy-2")
	g.Eventually(func() string { return notes(t, machine.Namespace) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.ContainSubstring(
		"CertificateRequestNotApproved: certificate request " + csr.Name + ` of the workload cluster was not approved: the Machine does not have the name "noisy-2"`))
	if got := decision(t, csr); got != "" {
		t.Errorf("decision = %q, want none", got)
	}
}

// refusal waits for the event by which a request was not approved.
func refusal(t *testing.T, machine *clusterv1.Machine, csr *certificatesv1.CertificateSigningRequest, why string) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Eventually(func() string { return notes(t, machine.Namespace) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.ContainSubstring(
		"CertificateRequestNotApproved: certificate request " + csr.Name + " of the workload cluster was not approved: " + why))
	if got := decision(t, csr); got != "" {
		t.Errorf("decision = %q, want none", got)
	}
}

// TestTokenIsGoodForOneKey: an attacker with a stolen token has another key than the host that has used it.
func TestTokenIsGoodForOneKey(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	machine, kubelet := waitingMachine(t, "once-1")
	csr := requestFirst(t, kubelet, "once-1")
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
	refusal(t, machine, requestFirst(t, kubelet, "once-1"), "the bootstrap token of the Machine has been used for another Node or key")
}

// TestTokenIsNotBoundToAKeyThatIsLost: while the controller was down, a kubelet has given its first request up after 15 minutes
// and made another, with another key. A kubelet that chooses the name of its request keeps the key.
func TestTokenIsNotBoundToAKeyThatIsLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		generateName string
		ages         []time.Duration
		want         []int
	}{
		"given up":         {"csr-", []time.Duration{20 * time.Minute, 5 * time.Minute}, []int{1}},
		"soon given up":    {"csr-", []time.Duration{requestLifetime}, nil},
		"both waited for":  {"csr-", []time.Duration{5 * time.Minute, time.Minute}, []int{0}},
		"with a kept key":  {"", []time.Duration{20 * time.Minute, 5 * time.Minute}, []int{0}},
		"from clock ahead": {"csr-", []time.Duration{-time.Hour}, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, remote, recorder := approverOfToken(t)
			var got []int
			for i, age := range test.ages {
				csr := requestOfToken(t, remote, fmt.Sprintf("csr-%d", i))
				csr.GenerateName, csr.CreationTimestamp = test.generateName, metav1.NewTime(time.Now().Add(-age))
				if err := a.review(t.Context(), csr); err != nil {
					t.Fatal(err)
				}
				after, err := remote.CertificatesV1().CertificateSigningRequests().Get(t.Context(), csr.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(after.Status.Conditions) > 0 {
					got = append(got, i)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("approved %v, want %v", got, test.want)
			}
			if refused := len(test.ages) - len(test.want); len(recorder.Events) != refused {
				t.Errorf("%d events, want %d", len(recorder.Events), refused)
			}
		})
	}
}

// TestTokenIsNotBoundByARefusedApproval: by the time that approvals are permitted, the kubelet has given its request up and made
// another, with another key.
func TestTokenIsNotBoundByARefusedApproval(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "certificatesigningrequests"}
	for name, test := range map[string]struct {
		answer error
		bound  bool
	}{
		"without the permission": {apierrors.NewForbidden(resource, "csr", errors.New("not approved here")), false},
		"by a policy":            {apierrors.NewBadRequest("not approved here"), false},
		"without an answer":      {apierrors.NewTimeoutError("no answer", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, remote, _ := approverOfToken(t)
			var answer error
			remote.PrependReactor("update", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) { return answer != nil, nil, answer })
			answer = test.answer
			if err := a.review(t.Context(), requestOfToken(t, remote, "csr-1")); !errors.Is(err, test.answer) {
				t.Fatalf("err = %v", err)
			}
			answer = nil
			later := requestOfToken(t, remote, "csr-2")
			if err := a.review(t.Context(), later); err != nil {
				t.Fatal(err)
			}
			after, err := remote.CertificatesV1().CertificateSigningRequests().Get(t.Context(), later.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if approved := len(after.Status.Conditions) > 0; approved == test.bound {
				t.Errorf("a request with another key was approved: %t", approved)
			}
		})
	}
}

// TestCopyOfARequestDoesNotUnbindTheToken: with a stolen token, the request of the host can be read and made again, so that a
// policy refuses to approve the copy.
func TestCopyOfARequestDoesNotUnbindTheToken(t *testing.T) {
	t.Parallel()
	a, remote, _ := approverOfToken(t)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "certificatesigningrequests"}, "csr", errors.New("it is valid for too long"))
	remote.PrependReactor("update", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		csr := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		return csr.Spec.ExpirationSeconds != nil, nil, refused
	})
	original := requestOfToken(t, remote, "csr-1")
	copied := original.DeepCopy()
	copied.Name, copied.UID, copied.Spec.ExpirationSeconds = "csr-2", "csr-2", new(int32(1e9))
	stolen := requestOfToken(t, remote, "csr-3")
	for _, step := range []struct {
		csr  *certificatesv1.CertificateSigningRequest
		want error
	}{{original, nil}, {copied, refused}, {stolen, nil}} {
		if err := a.review(t.Context(), step.csr); !errors.Is(err, step.want) {
			t.Fatalf("%s: err = %v", step.csr.Name, err)
		}
	}
	after, err := remote.CertificatesV1().CertificateSigningRequests().Get(t.Context(), stolen.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Status.Conditions) > 0 {
		t.Error("a request with another key than the host's was approved")
	}
}

// approverOfToken reviews requests of one Machine, m1, for which there is a token.
func approverOfToken(t *testing.T) (*approver, *fake.Clientset, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, bootstrapv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: "uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	management := ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, machine).Build()
	remote := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef", ResourceVersion: "1", Labels: map[string]string{bootstrapv1.MachineUIDLabel: "uid"}},
		Type:       corev1.SecretTypeBootstrapToken,
	})
	recorder := events.NewFakeRecorder(10)
	return &approver{
		client: management, live: management, events: newRecorder(recorder), cluster: cluster, log: logr.Discard(),
		connection: &workload.Connection{Core: remote.CoreV1(), Discovery: remote.DiscoveryV1(), Certificates: remote.CertificatesV1()},
	}, remote, recorder
}

// requestOfToken makes a request by the holder of the token, with a new key.
func requestOfToken(t *testing.T, remote *fake.Clientset, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := firstRequest(t, "m1")
	csr.Name, csr.UID, csr.GenerateName = name, types.UID(name), "csr-"
	csr.Spec.Username, csr.CreationTimestamp = "system:bootstrap:abcdef", metav1.NewTime(time.Now())
	if _, err := remote.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return csr
}

// TestTokenIsNotGoodForAnExistingNode: a Node of the Machine's name may be one of the control plane, or one that was made to look like it.
func TestTokenIsNotGoodForAnExistingNode(t *testing.T) {
	t.Parallel()
	machine, kubelet := waitingMachine(t, "there-1")
	create(t, workloads.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there-1"}})
	refusal(t, machine, requestFirst(t, kubelet, "there-1"), `the Node "there-1" exists already`)
}

func TestTokenIsNotGoodForAMachineThatHasJoined(t *testing.T) {
	t.Parallel()
	machine, kubelet := waitingMachine(t, "joined-1")
	machine.Status.NodeRef.Name = "joined-1"
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	refusal(t, machine, requestFirst(t, kubelet, "joined-1"), `the Machine already has the Node "joined-1"`)
}

// The holder of any client certificate of a Node can register it with the Machine's providerID: the core then takes it for
// the Machine's Node.
func TestNodeNameIsNoProof(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "posing-1")
	machine.Status.NodeRef.Name = "posing-1.evil.test"
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	refusal(t, machine, requestServing(t, "posing-1.evil.test", "10.9.0.1"), `the Machine does not have the name "posing-1.evil.test"`)
}

// Root on a worker adds the virtual IP of the control plane, or any other address, to its network card.
func TestReportedAddressesAreNoProof(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "reporting-1")
	machine.Status.Addresses = append(machine.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.9.0.7"})
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	refusal(t, machine, requestServing(t, "reporting-1", "10.9.0.7"), "the Machine does not have the address 10.9.0.7, or only its guest reports it")
}

// The cloud assigned an address that the endpoint of the Cluster resolves to: a tenant chose it, or it is a mistake.
func TestAddressOfTheEndpointIsReserved(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "endpoint-1")
	setCloudAddresses(t, machine, "10.9.0.250")
	refusal(t, machine, requestServing(t, "endpoint-1", "10.9.0.250"), "the address 10.9.0.250 belongs to the control plane or to another Machine")
}

// Root on a worker takes the address by which the other machines join, and reports it: where reported addresses are trusted,
// its certificate would be one of the API server for them.
func TestAddressByWhichMachinesJoinIsReserved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ machine, endpoint, address string }{
		"an address": {"joining-1", "10.9.0.240:6443", "10.9.0.240"},
		"a name":     {"joining-2", "internal.example.test:6443", "10.9.0.241"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine(t, test.machine)
			other := &bootstrapv1.BootstrapConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "other", Labels: machine.Labels},
				Spec:       bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu, Join: bootstrapv1.Join{Endpoint: test.endpoint}},
			}
			create(t, management.Client, other)
			machine.Status.Addresses = append(machine.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: test.address})
			if err := management.Client.Status().Update(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "c1"}}
			connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
			if err != nil {
				t.Fatal(err)
			}
			a := &approver{
				client: management.Client, live: management.Client, cluster: cluster, connection: connection, log: logr.Discard(), trustReported: true, events: newRecorder(events.NewFakeRecorder(10)),
				resolve: func(_ context.Context, host string) ([]string, error) {
					if host == "internal.example.test" {
						return []string{"10.9.0.241"}, nil
					}
					return nil, errors.New("no such host")
				},
			}
			csr := requestServing(t, machine.Name, test.address)
			if err := a.review(t.Context(), csr); err != nil {
				t.Fatal(err)
			}
			if got := decision(t, csr); got != "" {
				t.Errorf("decision = %q, want none", got)
			}
		})
	}
}

// A guest that reports what is another Machine's must not keep that one from its certificates.
func TestGuestCannotClaimTheAddressOfAnother(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	other := newMachine(t, "other-1")
	thief := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: "thief-1", Labels: other.Labels}, Spec: *other.Spec.DeepCopy()}
	thief.Spec.InfrastructureRef.Name = "thief-1"
	create(t, management.Client, thief)
	thief.Status.NodeRef.Name = "other-1.internal"
	thief.Status.Addresses = other.Status.Addresses
	if err := management.Client.Status().Update(t.Context(), thief); err != nil {
		t.Fatal(err)
	}
	csr := requestServing(t, "other-1", "10.9.0.1")
	g.Eventually(func() string { return decision(t, csr) }, 2*time.Minute, 100*time.Millisecond).Should(gomega.Equal("Approved: MachineVerified"))
}

// Root in a guest chooses its host name, before the host joins, too. Where reported addresses are trusted, the name of a Node
// is not among them: it might be that of a Node of the control plane that does not exist at the moment.
func TestReportedHostNameIsNoProof(t *testing.T) {
	t.Parallel()
	machine, kubelet := waitingMachine(t, "renamed-1")
	machine.Status.Addresses = clusterv1.MachineAddresses{
		{Type: clusterv1.MachineInternalIP, Address: "10.9.0.8"},
		{Type: clusterv1.MachineHostName, Address: "control-plane-9"}, {Type: clusterv1.MachineInternalDNS, Address: "control-plane-9"},
	}
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	csr := requestFirst(t, kubelet, "control-plane-9")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "c1"}}
	connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	a := &approver{client: management.Client, live: management.Client, cluster: cluster, connection: connection, log: logr.Discard(), trustReported: true, events: newRecorder(events.NewFakeRecorder(10))}
	if err := a.review(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
	if got := decision(t, csr); got != "" {
		t.Errorf("the holder of the token of %q becomes %q: %s", machine.Name, "control-plane-9", got)
	}
	machine.Status.NodeRef.Name = "renamed-1"
	if err := management.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	serving := requestServing(t, "renamed-1", "10.9.0.8")
	if err := a.review(t.Context(), serving); err != nil {
		t.Fatal(err)
	}
	if got := decision(t, serving); got == "" {
		t.Error("a reported address is not trusted")
	}
}

// TestRefusedApprovalIsReported: the user of the kubeconfig may read everything, and approves nothing.
func TestRefusedApprovalIsReported(t *testing.T) {
	t.Parallel()
	kind, resource := schema.GroupKind{Kind: "CertificateSigningRequest"}, schema.GroupResource{Resource: "certificatesigningrequests"}
	for name, refusal := range map[string]error{
		"for lack of a permission":           apierrors.NewForbidden(resource, "csr", errors.New("not approved here")),
		"by a policy of the API server":      apierrors.NewInvalid(kind, "csr", field.ErrorList{field.Forbidden(nil, "not approved here")}),
		"by a policy that a webhook decides": apierrors.NewBadRequest("not approved here"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine(t, "unapproved-1")
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "c1"}}
			connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
			if err != nil {
				t.Fatal(err)
			}
			remote, recorder := fake.NewClientset(), events.NewFakeRecorder(10)
			remote.PrependReactor("update", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
			connection.Certificates = remote.CertificatesV1()
			a := &approver{client: management.Client, live: management.Client, cluster: cluster, connection: connection, log: logr.Discard(), events: newRecorder(recorder)}
			csr := requestServing(t, "unapproved-1", "10.9.0.1")
			for range 2 {
				if err := a.review(t.Context(), csr); !errors.Is(err, refusal) {
					t.Fatalf("err = %v", err)
				}
			}
			if len(recorder.Events) != 1 {
				t.Fatalf("%d events, want one", len(recorder.Events))
			}
			if got, want := <-recorder.Events, "Warning CertificateApprovalForbidden certificate requests cannot be decided on: "; !strings.HasPrefix(got, want) || !strings.Contains(got, "not approved here") {
				t.Errorf("the event is %q", got)
			}
		})
	}
}
