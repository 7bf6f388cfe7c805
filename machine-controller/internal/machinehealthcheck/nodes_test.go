// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

// TestTimeoutsCountFromTheLaterConnection connects a workload cluster, and has the management cluster answer since before
// and since after that.
func TestTimeoutsCountFromTheLaterConnection(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	key := client.ObjectKey{Namespace: w.namespace, Name: "c"}
	w.Eventually(func() error {
		_, err := w.workloads.Get(key)
		return err
	}).Should(gomega.Succeed())
	connected := w.workloads.State(key).ConnectedSince
	for name, test := range map[string]struct{ answersSince, want time.Time }{
		"of the workload cluster":   {connected.Add(-time.Hour), connected},
		"of the management cluster": {connected.Add(time.Hour), connected.Add(time.Hour)},
	} {
		reachability := safety.Reachability{Since: test.answersSince}
		s := &state{check: newCheck(w.namespace, "check"), cluster: testenv.Cluster(w.namespace), targets: []*clusterv1.Machine{testenv.Machine(w.namespace, "m")}}
		result, err := nodes{w.workloads, &safety.Guard{Management: func() safety.Reachability { return reachability }}}.run(t.Context(), s)
		if err != nil || result.RequeueAfter != 0 || s.disconnected != "" || !s.since.Equal(test.want) {
			t.Errorf("%s: since %s, want %s; result %v, error %v, %q", name, s.since, test.want, result, err, s.disconnected)
		}
	}
}

func TestNodesAreNotObserved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reachability safety.Reachability
		want         string
	}{
		"before the first connection":                  {safety.Reachability{Since: time.Now()}, "Not connected to the workload cluster: no attempt to connect has begun yet"},
		"while the management cluster does not answer": {safety.Reachability{}, "The management cluster does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{check: newCheck("ns", "check"), cluster: testenv.Cluster("ns")}
			guard := &safety.Guard{Management: func() safety.Reachability { return test.reachability }}
			result, err := nodes{workload.New(workload.Options{}), guard}.run(t.Context(), s)
			if err != nil || result.RequeueAfter != recheckPeriod || s.disconnected != test.want || s.nodes != nil {
				t.Errorf("result %v, error %v, %q", result, err, s.disconnected)
			}
		})
	}
}

// fakeNodes are the Nodes of a workload cluster.
type fakeNodes []*corev1.Node

func (f fakeNodes) Node(name string) (*corev1.Node, bool) {
	i := slices.IndexFunc(f, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, false
	}
	return f[i], true
}

func (f fakeNodes) NodesByProviderID(id string) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(f), func(n *corev1.Node) bool { return n.Spec.ProviderID != id })
}

// TestNodeOfAnotherMachineIsNotObserved has the Node of a Machine, and that of another which reports the same providerID.
func TestNodeOfAnotherMachineIsNotObserved(t *testing.T) {
	t.Parallel()
	m, other := testenv.Machine("ns", "m"), testenv.Machine("ns", "other")
	m.Spec.ProviderID, other.Spec.ProviderID = "sim://m", "sim://other"
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "sim://m"}}
	}
	byName := map[string]*clusterv1.Machine{"m": m, "other": other}
	if found := nodesOf(fakeNodes{node("other")}, m, byName); len(found) != 0 {
		t.Errorf("found Node %s", found[0].Name)
	}
	if found := nodesOf(fakeNodes{node("m"), node("other")}, m, byName); len(found) != 1 || found[0].Name != "m" {
		t.Errorf("found %d Nodes", len(found))
	}
}
