// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/fairshare"
)

func open(name string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-nodeRefGrace))},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:unknown"},
	}
}

// TestClusterThatHangsDelaysNoOther has a hundred open requests of a workload cluster that answers nothing:
// a caller of requeueAll, such as the controller's only worker, does not wait for any of them.
func TestClusterThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{
		requests: newOpenRequests("team", fairshare.New[string](0)),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		pace:     newPace(),
	}
	w.requests.opened = w.queue.Add
	for i := range 100 {
		csr := open(fmt.Sprint("csr-", i))
		csr.Spec.Username += csr.Name
		if !w.requests.put(csr) {
			t.Fatal("a request was not kept")
		}
	}
	looked, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		w.work(ctx, func(ctx context.Context, _ *certificatesv1.CertificateSigningRequest) error {
			select {
			case looked <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return nil
		})
	}()
	w.requeueAll()
	<-looked // the first one hangs
	w.requeueAll()
	if queued := w.queue.Len(); queued > 100 {
		t.Errorf("%d are queued for 100 requests", queued)
	}
	cancel()
	w.queue.ShutDown()
	<-ended
}

// TestEventsOfAClusterAreBounded has more requests of unknowns than events may be made in the management cluster.
func TestEventsOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10 * eventBurst)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "empty", Name: "home"}}
	a := &approver{client: management.Client, cluster: cluster, events: newRecorder(recorder), log: logr.Discard()}
	for i := range 5 * eventBurst {
		if err := a.review(t.Context(), open(fmt.Sprint("csr-", i))); err != nil {
			t.Fatal(err)
		}
	}
	if made := len(recorder.Events); made < eventBurst || made > 2*eventBurst {
		t.Errorf("%d events, want %d and perhaps some for the time that passed", made, eventBurst)
	}
}

// TestAddressesOfTheControlPlaneAreReserved reads from a real API server where it announces itself.
func TestAddressesOfTheControlPlaneAreReserved(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "taken-1")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "c1"}}
	connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	a := &approver{client: management.Client, cluster: cluster, connection: connection, log: logr.Discard()}
	taken, err := a.reservedForControlPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, address := range taken.Addresses {
		has[address] = true
	}
	slice, err := connection.Discovery.EndpointSlices(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || len(slice.Endpoints) == 0 {
		t.Fatalf("the API server announces %v, error %v", slice.Endpoints, err)
	}
	service, err := connection.Core.Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range append(slice.Endpoints[0].Addresses, service.Spec.ClusterIPs...) {
		if !has[address] {
			t.Errorf("%s is not taken, but %v are", address, taken.Addresses)
		}
	}
}

// TestUnresolvableNamesReserveNothing: what was found before is kept, for each name by itself.
func TestUnresolvableNamesReserveNothing(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "unresolved-1")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "c1"}}
	connection, err := workload.NewConnections(management.Client, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	fails := false
	a := &approver{client: management.Client, cluster: cluster, connection: connection, log: logr.Discard(), resolve: func(_ context.Context, host string) ([]string, error) {
		if fails {
			return nil, errors.New("no such host")
		}
		return slices.Repeat([]string{"192.0.2." + host}, 2*maxAddresses), nil
	}}
	var first []string
	for n := range 4 {
		a.stale = time.Time{}
		taken, err := a.reservedForControlPlane(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first, fails = taken.Addresses, true
		}
		if !slices.Equal(first, taken.Addresses) {
			t.Fatalf("%d addresses are taken, and %d were at first", len(taken.Addresses), len(first))
		}
	}
	if len(first) < maxAddresses || len(first) > 4*maxAddresses {
		t.Errorf("%d addresses are taken", len(first))
	}
}

// TestReportedRequestsAreBounded has it give UIDs and refusals of any length.
func TestReportedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10 * eventBurst)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "empty", Name: "home"}}
	a := &approver{client: management.Client, cluster: cluster, events: newRecorder(recorder), log: logr.Discard()}
	long := strings.Repeat("x", 1<<20)
	if !a.events.due(types.UID(long)) || a.events.due(types.UID(long)) || !a.events.due(types.UID(long+"y")) {
		t.Error("long UIDs are not distinguished")
	}
	for n := range 3 {
		a.events.decisionForbidden(cluster, errors.New(fmt.Sprint(n)+long))
	}
	for request := range a.events.reported.All() {
		if len(request) > maxKeyLength {
			t.Errorf("%d bytes are stored", len(request))
		}
	}
	if made := len(recorder.Events); made != 1 {
		t.Errorf("%d events of a missing permission, want one", made)
	}
	if event := <-recorder.Events; len(event) > 1000 {
		t.Errorf("an event has %d bytes", len(event))
	}
}

// TestQueueIsBounded however many names an API server makes up.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	w := &watch{requests: newOpenRequests("team", fairshare.New[string](0)), queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
	defer w.queue.ShutDown()
	w.requests.opened = w.add
	for n := range 5 * maxPerCluster {
		_ = w.requests.Add(from("noisy", fmt.Sprint("csr-", n)))
	}
	if queued := w.queue.Len(); queued > 2*maxPerCluster {
		t.Errorf("%d are queued", queued)
	}
}

// TestWatchOfADeletedClusterIsStopped with its kubeconfig.
func TestWatchOfADeletedClusterIsStopped(t *testing.T) {
	t.Parallel()
	machine := newMachine(t, "forgotten-1")
	secret := &corev1.Secret{}
	if err := management.Client.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "c1-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	gone := client.ObjectKey{Namespace: machine.Namespace, Name: "gone"}
	create(t, management.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: "gone-kubeconfig"}, Data: secret.Data})
	connections := workload.NewConnections(management.Client, clock.RealClock{})
	r := &Reconciler{Client: management.Client, Live: management.Client, Connections: connections}
	get := func() *workload.Connection {
		t.Helper()
		connection, err := connections.Get(t.Context(), gone)
		if err != nil {
			t.Fatal(err)
		}
		return connection
	}
	before := get()
	if get() != before {
		t.Fatal("connections are not kept, so this proves nothing")
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: gone}); err != nil {
		t.Fatal(err)
	}
	if get() == before {
		t.Error("the connection is kept")
	}
}
