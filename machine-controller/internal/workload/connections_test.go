// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func asIs(*Options) {}

func TestConnectsEachClusterToItsOwnAPIServer(t *testing.T) {
	t.Parallel()
	a, b := apiServer(t, "a"), apiServer(t, "b")
	w := newEnvironment(t, asIs)
	createNode(t, liveClient(t, a), "both-1", "sim://both-a")
	createNode(t, liveClient(t, b), "both-2", "sim://both-b")
	w.cluster("a", kubeconfigOf(t, a))
	w.cluster("b", kubeconfigOf(t, b))
	toA, toB := w.connected("a"), w.connected("b")

	// A Connection is only handed out with all Nodes in it, so nothing waits here.
	got := map[string][]string{
		"a in a": nodeNames(toA.NodesByProviderID("sim://both-a")), "b in a": nodeNames(toA.NodesByProviderID("sim://both-b")),
		"a in b": nodeNames(toB.NodesByProviderID("sim://both-a")), "b in b": nodeNames(toB.NodesByProviderID("sim://both-b")),
	}
	want := map[string][]string{"a in a": {"both-1"}, "b in a": nil, "a in b": nil, "b in b": {"both-2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, found := toA.Node("both-1"); !found || !toA.Synced() {
		t.Errorf("Node found: %v, synced: %v", found, toA.Synced())
	}
	state := w.connections.State(w.key("a"))
	if !state.Connected || state.ConnectedSince.IsZero() || state.LastProbeSuccess.IsZero() || !state.DisconnectedSince.IsZero() || state.Reason != "" {
		t.Errorf("state: %+v", state)
	}
}

func nodeNames(nodes []*corev1.Node) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

func TestConnectionReadsAndWritesLive(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, asIs)
	createNode(t, liveClient(t, a), "live-1", "sim://live")
	w.cluster("a", kubeconfigOf(t, a))
	connection := w.connected("a")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "live-1"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))
	w.Expect(connection.Client().Patch(t.Context(), node, patch)).To(gomega.Succeed())
	read, err := connection.Clientset().CoreV1().Nodes().Get(t.Context(), "live-1", metav1.GetOptions{})
	if err != nil || !read.Spec.Unschedulable {
		t.Errorf("got %v, %v", read, err)
	}
	if !connection.servesLeases(t.Context()) {
		t.Error("it takes a real API server for one without Leases, which cannot be claimed")
	}
	if connection.Clientset() != connection.Clientset() {
		t.Error("each call makes a clientset")
	}
	w.Eventually(func() bool {
		cached, found := connection.Node("live-1")
		return found && cached.Spec.Unschedulable
	}).Should(gomega.BeTrue())
}

func TestKubeconfigsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	a, b := apiServer(t, "a"), apiServer(t, "b")
	wrongCA := *a
	wrongCA.CAData = b.CAData
	wrongToken := *a
	wrongToken.CertData, wrongToken.KeyData, wrongToken.BearerToken = nil, nil, "not-a-token"
	anonymous := *a
	anonymous.CertData, anonymous.KeyData = nil, nil
	tests := map[string]struct {
		kubeconfig string
		reason     Reason
		message    string
	}{
		"missing":      {"", ReasonKubeconfigMissing, "does not exist"},
		"invalid":      {"not a kubeconfig", ReasonKubeconfigInvalid, "not a kubeconfig"},
		"exec":         {withExec(t, kubeconfigOf(t, a)), ReasonKubeconfigInvalid, "users[].user.exec"},
		"wrong-ca":     {kubeconfigOf(t, &wrongCA), ReasonUnreachable, "certificate-authority-data"},
		"unauthorized": {kubeconfigOf(t, &wrongToken), ReasonUnauthorized, "refuses the credentials"},
		"anonymous":    {kubeconfigOf(t, &anonymous), ReasonForbidden, "the group drover:managers"},
		"no-server":    {kubeconfigOf(t, at(a, closedAddress(t))), ReasonUnreachable, "connection refused"},
	}
	w := newEnvironment(t, asIs)
	for name, test := range tests {
		w.cluster(name, test.kubeconfig)
	}
	for name, test := range tests {
		state := w.refused(name, test.reason)
		if !strings.Contains(state.Message, test.message) || state.DisconnectedSince.IsZero() {
			t.Errorf("%s: got %+v", name, state)
		}
		_, err := w.connections.Get(w.key(name))
		if !IsNotConnected(err) || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Each of them is put right by a good kubeconfig, at once.
	for name := range tests {
		w.secret(name, kubeconfigOf(t, a))
	}
	for name := range tests {
		w.connected(name)
	}
}

func withExec(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		Command: "true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// closedAddress is a loopback address that refuses connections.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}()
	return listener.Addr().String()
}

// at is the same client configuration for another address.
func at(config *rest.Config, address string) *rest.Config {
	other := rest.CopyConfig(config)
	other.Host = "https://" + address
	return other
}

// blackHole is a loopback address that accepts connections and never answers,
// and the number of those that it holds.
func blackHole(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	held := &atomic.Int64{}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var conns []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
			held.Add(1)
		}
		for _, conn := range conns {
			_ = conn.Close() // The other side may have gone first.
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		accepting.Wait()
	})
	return listener.Addr().String(), held
}

func TestClustersThatNeverAnswerDelayNoOther(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	// The holes would keep whatever they hold for an hour.
	w := newEnvironment(t, func(o *Options) { o.ProbeTimeout, o.ConcurrentSyncs = time.Hour, 1 })
	hole, held := blackHole(t)
	toHole := kubeconfigOf(t, at(a, hole))
	const holes = 30
	for i := range holes {
		w.cluster(fmt.Sprintf("hole-%d", i), toHole)
	}
	w.Eventually(held.Load).Should(gomega.BeEquivalentTo(holes))
	w.cluster("a", kubeconfigOf(t, a))
	w.connected("a")
	for i := range holes {
		if state := w.connections.State(w.key(fmt.Sprintf("hole-%d", i))); state.Reason != ReasonConnecting {
			t.Errorf("hole %d: %+v", i, state)
		}
	}
}

func TestNodeEventsAreForChangesButNotForHeartbeats(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "events")
	live := liveClient(t, a)
	w := newEnvironment(t, asIs)
	w.cluster("a", kubeconfigOf(t, a))
	connection := w.connected("a")

	node := createNode(t, live, "events-1", "sim://events")
	w.Expect(w.nextNode()).To(gomega.Equal("a/events-1"))
	if nodes := connection.NodesByProviderID("sim://events"); len(nodes) != 1 {
		t.Fatalf("an event of a Node that is not in the cache: %v", nodes)
	}

	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Unix(1, 0), LastTransitionTime: metav1.Unix(1, 0)}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	w.Expect(live.Status().Update(t.Context(), node)).To(gomega.Succeed())
	w.Expect(w.nextNode()).To(gomega.Equal("a/events-1"))

	for beat := range 3 {
		node.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(int64(100+beat), 0)
		node.Status.Images = []corev1.ContainerImage{{Names: []string{fmt.Sprintf("image-%d", beat)}}}
		w.Expect(live.Status().Update(t.Context(), node)).To(gomega.Succeed())
	}
	// Events of the heartbeats would come before this one.
	sentinel := createNode(t, live, "events-2", "")
	w.Expect(w.nextNode()).To(gomega.Equal("a/events-2"))
	if cached, _ := connection.Node("events-1"); cached.ResourceVersion != node.ResourceVersion {
		t.Errorf("the cache holds version %s of the Node, not %s of its last heartbeat", cached.ResourceVersion, node.ResourceVersion)
	}

	w.Expect(live.Delete(t.Context(), sentinel)).To(gomega.Succeed())
	w.Expect(w.nextNode()).To(gomega.Equal("a/events-2"))
	if _, found := connection.Node("events-2"); found {
		t.Error("a deleted Node is in the cache")
	}
}

func TestClusterEventsAreForConnectionAndDeletion(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, asIs)
	queue := w.queue()
	toCluster := func(cluster client.ObjectKey) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: cluster}}
	}
	w.Expect(w.connections.ClusterEvents(toCluster).Start(t.Context(), queue)).To(gomega.Succeed())
	until := func(reached func() bool) {
		for !reached() {
			w.Eventually(queue.Len).Should(gomega.BeNumerically(">", 0), "no Cluster event arrives")
			request, _ := queue.Get()
			queue.Done(request)
			if request.NamespacedName != w.key("a") {
				t.Fatalf("an event of %s", request)
			}
		}
	}
	reason := func() Reason { return w.connections.State(w.key("a")).Reason }

	w.cluster("a", "")
	until(func() bool { return reason() == ReasonKubeconfigMissing })
	w.secret("a", kubeconfigOf(t, a))
	until(func() bool { return w.connections.State(w.key("a")).Connected })
	w.deleteCluster("a")
	until(func() bool { return reason() == ReasonConnecting })
}

func TestOnlyClustersOfTheWatchFilterAreConnected(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, func(o *Options) { o.Watch = "own" })
	w.cluster("a", kubeconfigOf(t, a))
	cluster := &clusterv1.Cluster{}
	w.Expect(w.management.Get(t.Context(), w.key("a"), cluster)).To(gomega.Succeed())
	cluster.Labels = map[string]string{clusterv1.WatchLabel: "own"}
	w.Expect(w.management.Update(t.Context(), cluster)).To(gomega.Succeed())
	w.connected("a")

	cluster.Labels[clusterv1.WatchLabel] = "other"
	w.Expect(w.management.Update(t.Context(), cluster)).To(gomega.Succeed())
	w.Eventually(func() error { _, err := w.connections.Get(w.key("a")); return err }).Should(gomega.MatchError(ErrNotConnected))
}

func TestConnectsToTheClusterThatTheManagerRunsIn(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, asIs)
	w.cluster("self", kubeconfigOf(t, managementServer(t)))
	connection := w.connected("self")
	w.Expect(connection.Client().Get(t.Context(), client.ObjectKey{Name: w.namespace}, &corev1.Namespace{})).To(gomega.Succeed())
}

func TestRecreatedClusterIsConnectedAnew(t *testing.T) {
	t.Parallel()
	a, b := apiServer(t, "a"), apiServer(t, "b")
	createNode(t, liveClient(t, b), "again-1", "sim://again")
	w := newEnvironment(t, asIs)
	// These get their Clusters from the test.
	w.connections = New(Options{Reader: w.management, ProbeInterval: time.Hour})
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		if err := w.connections.Start(ended); err != nil {
			t.Error(err)
		}
	})
	key := w.key("a")
	w.secret("a", kubeconfigOf(t, a))
	w.connections.keep(logr.Discard(), key, "first", "")
	first := w.connected("a")
	w.connections.keep(logr.Discard(), key, "first", "")
	if w.connected("a") != first {
		t.Error("the same Cluster was connected again")
	}

	w.secret("a", kubeconfigOf(t, b))
	w.connections.keep(logr.Discard(), key, "second", "")
	if nodes := w.connected("a").NodesByProviderID("sim://again"); len(nodes) != 1 {
		t.Errorf("got %v from the new Cluster", nodes)
	}
	w.Eventually(first.Synced).Should(gomega.BeFalse())
}

func TestNotConnectedError(t *testing.T) {
	t.Parallel()
	connections := New(Options{})
	_, err := connections.Get(client.ObjectKey{Namespace: "n", Name: "c"})
	if !errors.Is(err, ErrNotConnected) || !IsNotConnected(err) {
		t.Errorf("%v is not ErrNotConnected", err)
	}
	var typed *NotConnectedError
	if !errors.As(err, &typed) {
		t.Fatalf("%v is no NotConnectedError", err)
	}
	want := &NotConnectedError{
		Cluster: client.ObjectKey{Namespace: "n", Name: "c"},
		Reason:  ReasonConnecting, Message: "no attempt to connect has begun yet",
	}
	if diff := cmp.Diff(want, typed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
