// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"drover.io/runtime/envtest"
)

// whoami reads from the workload cluster's API server who a Connection is.
func whoami(t *testing.T, c *Connection) string {
	t.Helper()
	review, err := c.Clientset().AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

// serviceAccount makes an administrator whose token stops working when it is deleted.
func serviceAccount(t *testing.T, config *rest.Config, name string) (*corev1.ServiceAccount, *rest.Config) {
	t.Helper()
	live := liveClient(t, config)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := live.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := live.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	as := rest.AnonymousClientConfig(config)
	as.CAData = config.CAData
	as.BearerToken = request.Status.Token
	return account, as
}

func TestRotatedKubeconfigTakesOverWithoutInterruption(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	other, err := servers["a"].AddUser("rotated", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	// No probe runs within the test: only the Secret's watch detects the rotation.
	w := newEnvironment(t, func(o *Options) { o.ProbeInterval = time.Hour })
	w.cluster("a", kubeconfigOf(t, a))
	first := w.connected("a")
	since := w.connections.State(w.key("a")).ConnectedSince

	// A kubeconfig that does not work changes nothing but the reason.
	w.secret("a", "not a kubeconfig")
	w.Eventually(func() Reason { return w.connections.State(w.key("a")).Reason }).Should(gomega.Equal(ReasonKubeconfigInvalid))
	if still := w.connected("a"); still != first {
		t.Error("the working connection was given up for one that does not work")
	}

	w.secret("a", kubeconfigOf(t, other))
	w.Eventually(func() (replaced bool, err error) {
		second, err := w.connections.Get(w.key("a"))
		return second != first, err
	}).Should(gomega.BeTrue())
	if name := whoami(t, w.connected("a")); name != "rotated" {
		t.Errorf("connected as %q", name)
	}
	if state := w.connections.State(w.key("a")); state.ConnectedSince != since || state.Reason != "" {
		t.Errorf("state: %+v, connected since %s before", state, since)
	}
}

func TestRefusedCredentialsAreReplacedAtOnce(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	account, as := serviceAccount(t, a, "refused")
	// An attempt that failed is not repeated within the test.
	w := newEnvironment(t, func(o *Options) { o.RetryInterval, o.MaxRetryInterval = time.Hour, time.Hour })
	w.cluster("a", kubeconfigOf(t, as))
	if name := whoami(t, w.connected("a")); name != "system:serviceaccount:default:refused" {
		t.Fatalf("connected as %q", name)
	}

	w.Expect(liveClient(t, a).Delete(t.Context(), account)).To(gomega.Succeed())
	state := w.refused("a", ReasonUnauthorized)
	if state.LastProbeSuccess.IsZero() || state.DisconnectedSince.Before(state.LastProbeSuccess) {
		t.Errorf("state: %+v", state)
	}
	w.secret("a", kubeconfigOf(t, a))
	w.connected("a")
}

func TestRestartedAPIServerIsConnectedAgain(t *testing.T) {
	t.Parallel()
	assets, err := envtest.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	environment := &ctrlenvtest.Environment{BinaryAssetsDirectory: assets}
	server := environment.ControlPlane.GetAPIServer()
	server.CertDir = t.TempDir() // Kept when the server stops, with its keys.
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	live := liveClient(t, config)
	createNode(t, live, "kept", "sim://kept")
	w := newEnvironment(t, asIs)
	w.cluster("a", kubeconfigOf(t, config))
	connection := w.connected("a")
	w.Expect(w.nextNode()).To(gomega.Equal("a/kept"))

	w.Expect(server.Stop()).To(gomega.Succeed())
	w.Eventually(connection.Synced).Should(gomega.BeFalse())
	if _, found := connection.Node("kept"); !found {
		t.Error("a Node was removed because its API server is down")
	}
	state := w.refused("a", ReasonUnreachable)
	if state.ConsecutiveFailures < 5 || state.LastProbeSuccess.IsZero() {
		t.Errorf("state: %+v", state)
	}

	w.Expect(server.Start()).To(gomega.Succeed())
	again := w.connected("a")
	createNode(t, live, "new", "sim://new")
	// An event of the Node that did not change would come first.
	w.Expect(w.nextNode()).To(gomega.Equal("a/new"))
	if nodes := again.NodesByProviderID("sim://kept"); len(nodes) != 1 {
		t.Errorf("after the reconnect: %v", nodes)
	}
}

// TestStopLeavesNothingRunning does not run in parallel: it counts goroutines.
func TestStopLeavesNothingRunning(t *testing.T) {
	a := apiServer(t, "a")
	w := newEnvironment(t, asIs)
	w.cluster("first", kubeconfigOf(t, a))
	w.connected("first")
	w.deleteCluster("first")
	running := func() int {
		return goroutines("internal/workload.", "(*Reflector)", "http2clientConnReadLoop", "http2.(*ClientConn)")
	}
	baseline := 0
	w.Eventually(func() int { baseline = running(); return goroutines("(*connector)") }).Should(gomega.BeZero())

	names := []string{"c-1", "c-2", "c-3", "c-4", "c-5"}
	for _, name := range names {
		w.cluster(name, kubeconfigOf(t, a))
	}
	for _, name := range names {
		w.connected(name)
	}
	connected := running()
	if running := goroutines("(*connector)"); running < len(names) {
		t.Errorf("%d goroutines of connectors are counted with %d Clusters", running, len(names))
	}
	if connected < baseline+3*len(names) {
		t.Errorf("connections are not counted: %d goroutines before, %d with %d", baseline, connected, len(names))
	}
	for _, name := range names {
		w.deleteCluster(name)
	}
	w.Eventually(running).Should(gomega.BeNumerically("<=", baseline))

	w.cluster("last", kubeconfigOf(t, a))
	connection := w.connected("last")
	w.stop()
	if left := goroutines("(*connector)"); left != 0 {
		t.Errorf("%d goroutines are left after the manager ended", left)
	}
	if err := connection.Client().List(t.Context(), &corev1.NodeList{}); err == nil {
		t.Error("a closed connection still works")
	}
}

// goroutines counts those whose stack has one of the marks.
func goroutines(marks ...string) int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := 0
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		for _, mark := range marks {
			if strings.Contains(string(stack), mark) && !strings.Contains(string(stack), "testing.tRunner") {
				count++
				break
			}
		}
	}
	return count
}
