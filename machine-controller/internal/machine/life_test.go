// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/machine/nodesync"
)

// testMachine is one Machine; the test acts as its provider and kubelet.
type testMachine struct {
	*testing.T
	*gomega.WithT
	machine       *clusterv1.Machine
	infra, config *unstructured.Unstructured
	node          *corev1.Node
}

// newTestMachine creates a Cluster that reaches the workload cluster, and a Machine with objects that are held by a finalizer.
func newTestMachine(t *testing.T, name string) *testMachine {
	t.Helper()
	if err := startEnvironment(); err != nil {
		t.Fatalf("starting the API servers: %v", err)
	}
	l := &testMachine{T: t, WithT: gomega.NewWithT(t)}
	l.SetDefaultEventuallyTimeout(eventTimeout)
	l.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "machine-"}}
	l.must(shared.client.Create(t.Context(), namespace))
	meta := metav1.ObjectMeta{Namespace: namespace.Name, Name: name}
	kubeconfig, err := shared.kubeconfig()
	l.must(err)
	l.must(shared.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
		Data:       map[string][]byte{"value": kubeconfig},
	}))
	l.must(shared.client.Create(t.Context(), testCluster(meta.Namespace)))
	l.infra, l.config = l.providerObject("infrastructure.test.io/v1", "ThingMachine", meta), l.providerObject("bootstrap.test.io/v1", "ThingConfig", meta)
	l.machine = &clusterv1.Machine{ObjectMeta: meta}
	l.machine.Labels = map[string]string{"node-role.kubernetes.io/worker": ""}
	l.machine.Spec.ClusterName = "c"
	l.machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingMachine", Name: name}
	l.machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: "ThingConfig", Name: name}
	l.must(shared.client.Create(t.Context(), l.machine))
	return l
}

// testCluster is the Cluster of a test Machine.
func testCluster(namespace string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	return cluster
}

func (l *testMachine) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *testMachine) providerObject(apiVersion, kind string, meta metav1.ObjectMeta) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(meta.Namespace)
	o.SetName(meta.Name)
	o.SetFinalizers([]string{"test.io/held"})
	o.SetOwnerReferences(meta.OwnerReferences)
	l.must(shared.client.Create(l.Context(), o))
	return o
}

// report writes into an object of the provider as the provider would.
func (l *testMachine) report(o *unstructured.Unstructured, change map[string]any, path ...string) {
	l.Helper()
	l.must(shared.client.Get(l.Context(), client.ObjectKeyFromObject(o), o))
	before := o.DeepCopy()
	l.must(unstructured.SetNestedMap(o.Object, change, path...))
	if path[0] == "status" {
		l.must(shared.client.Status().Patch(l.Context(), o, client.MergeFrom(before)))
		return
	}
	l.must(shared.client.Patch(l.Context(), o, client.MergeFrom(before)))
}

// until waits until the assertions about the Machine succeed.
func (l *testMachine) until(is func(g gomega.Gomega, m *clusterv1.Machine)) {
	l.Helper()
	l.Eventually(func(g gomega.Gomega) {
		g.Expect(shared.client.Get(l.Context(), client.ObjectKeyFromObject(l.machine), l.machine)).To(gomega.Succeed())
		is(g, l.machine)
	}).Should(gomega.Succeed())
}

// provision takes the Machine from its creation to Running.
func (l *testMachine) provision() {
	l.Helper()
	name := l.machine.Namespace
	l.report(l.config, map[string]any{"initialization": map[string]any{"dataSecretCreated": true}, "dataSecretName": "data"}, "status")
	l.report(l.infra, map[string]any{"providerID": "thing://" + name}, "spec")
	l.report(l.infra, map[string]any{
		"initialization": map[string]any{"provisioned": true}, "failureDomain": "z",
		"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}},
	}, "status")
	l.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "thing://" + name, Taints: []corev1.Taint{clusterv1.NodeUninitializedTaint}},
	}
	l.must(shared.nodes.Create(l.Context(), l.node))
	bare := l.node.DeepCopy() // the controller writes the Node too, at once: patch what is the kubelet's alone
	l.Cleanup(func() {
		if err := client.IgnoreNotFound(shared.nodes.Delete(context.Background(), l.node)); err != nil {
			l.Error(err)
		}
	})
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: "True", corev1.NodeMemoryPressure: "False", corev1.NodeDiskPressure: "False", corev1.NodePIDPressure: "False",
	} {
		l.node.Status.Conditions = append(l.node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
	}
	l.must(shared.nodes.Status().Patch(l.Context(), l.node, client.MergeFrom(bare)))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(m.Status.Phase).To(gomega.Equal(string(clusterv1.MachinePhaseRunning)))
		g.Expect(conditions.IsTrue(m, clusterv1.MachineAvailableCondition)).To(gomega.BeTrue())
	})
}

func TestFromCreationToRunning(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	m := l.machine
	if m.Spec.ProviderID != "thing://"+m.Namespace || m.Status.NodeRef.Name != l.node.Name || *m.Spec.Bootstrap.DataSecretName != "data" || m.Status.FailureDomain != "z" {
		t.Errorf("spec is %+v, status %+v", m.Spec, m.Status)
	}
	if diff := cmp.Diff(clusterv1.MachineAddresses{{Type: "InternalIP", Address: "10.0.0.1"}}, m.Status.Addresses); diff != "" {
		t.Error(diff)
	}
	for _, o := range []*unstructured.Unstructured{l.infra, l.config} {
		l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if !metav1.IsControlledBy(o, m) || o.GetLabels()[clusterv1.ClusterNameLabel] != "c" {
			t.Errorf("%s was not adopted: %v %v", o.GetKind(), o.GetOwnerReferences(), o.GetLabels())
		}
	}
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if _, labelled := l.node.Labels["node-role.kubernetes.io/worker"]; !labelled || l.node.Annotations[clusterv1.MachineAnnotation] != "m" {
		t.Errorf("the Node has labels %v and annotations %v", l.node.Labels, l.node.Annotations)
	}
	if slices.Contains(l.node.Spec.Taints, clusterv1.NodeUninitializedTaint) {
		t.Error("the Node is still tainted as uninitialized")
	}
}

// The record costs no write of its own.
func TestRestrictedLabelsAreRecordedWithTheProviderID(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(m.Status.Phase).NotTo(gomega.BeEmpty()) // it is written after the rest of the Machine
	})
	if recorded := nodesync.Recorded(l.machine); len(recorded) > 0 {
		t.Errorf("%v is recorded before there is an instance", recorded)
	}
	l.provision()
	if recorded := nodesync.Recorded(l.machine); !recorded["node-role.kubernetes.io/worker"] {
		t.Errorf("%v is recorded of a Machine with a Node", recorded)
	}
}

// It runs alone, as the writes of other Machines would count.
func TestNothingToDoWritesNothing(t *testing.T) {
	l := newTestMachine(t, "m")
	l.provision()
	// The Machine can be Running before its Node is written: that is tried again where the kubelet wrote it at the same time.
	l.until(func(g gomega.Gomega, _ *clusterv1.Machine) {
		g.Expect(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node)).To(gomega.Succeed())
		g.Expect(l.node.Spec.Taints).NotTo(gomega.ContainElement(clusterv1.NodeUninitializedTaint))
	})
	writes, version := shared.writes.Load(), l.node.ResourceVersion
	for range 3 {
		if _, err := shared.reconciler.Reconcile(t.Context(), l.machine.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if more := shared.writes.Load() - writes; more != 0 || l.node.ResourceVersion != version {
		t.Errorf("%d writes, and the Node at %s was at %s", more, l.node.ResourceVersion, version)
	}
}

func TestDeletionInOrder(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	l.must(shared.client.Delete(t.Context(), l.machine))
	deleting := func(o client.Object) bool {
		l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		return o.GetDeletionTimestamp() != nil
	}
	release := func(o client.Object) {
		before, _ := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		l.must(shared.client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	stage := func(reason string) {
		l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
			g.Expect(conditions.GetReason(m, clusterv1.MachineDeletingCondition)).To(gomega.Equal(reason))
		})
	}
	nodeThere := func() {
		l.Helper()
		l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	}

	stage(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
	if !deleting(l.infra) || deleting(l.config) {
		t.Error("the virtual machine does not go first, and alone")
	}
	nodeThere()
	if !l.node.Spec.Unschedulable {
		t.Error("the Node was not cordoned")
	}
	release(l.infra)
	stage(clusterv1.MachineDeletingWaitingForBootstrapDeletionReason)
	if !deleting(l.config) {
		t.Error("the bootstrap object does not go second")
	}
	nodeThere()
	release(l.config)
	l.Eventually(func() bool {
		err := shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.machine), l.machine)
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
	if err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is left: %v", err)
	}
	l.expectLog()
}

// expectLog checks that each change from the creation of the Machine to its deletion is one line.
func (l *testMachine) expectLog() {
	l.Helper()
	changes := []string{
		"adopted provider object", "adopted provider object", "set providerID", "synced labels, annotations and taints to Node", "Node joined",
		"cordoned Node", "deleted provider object", "deleted provider object", "deleted Node", "deleted Machine",
	}
	var logged []string
	phase := ""
	for _, line := range shared.log.Lines("Machine=" + l.machine.Namespace + "/" + l.machine.Name + " ") {
		i := slices.IndexFunc(changes, func(change string) bool { return strings.HasPrefix(line, change+" ") })
		switch {
		case strings.HasPrefix(line, "metadata.finalizers: "): // a warning of the API server about upstream's finalizer
		case i >= 0:
			logged = append(logged, changes[i])
		case strings.HasPrefix(line, "Machine phase changed ") && strings.HasSuffix(line, " previousPhase="+phase):
			phase = strings.Fields(line[strings.Index(line, " phase="):])[0][len("phase="):]
		default:
			l.Errorf("unexpected line after phase %q: %s", phase, line)
		}
	}
	// The phases of a fast cloud are merged; Node and status are written in any order.
	if diff := cmp.Diff(slices.Sorted(slices.Values(changes)), slices.Sorted(slices.Values(logged))); diff != "" {
		l.Error(diff)
	}
	if phase != string(clusterv1.MachinePhaseDeleting) {
		l.Errorf("the last phase is %q", phase)
	}
}

func TestANodeOfAnotherMachineWithTheSameNameIsKept(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	l.must(shared.nodes.Delete(t.Context(), l.node))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.GetReason(m, clusterv1.MachineNodeReadyCondition)).To(gomega.Equal(clusterv1.MachineNodeDeletedReason))
	})
	successor := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node.Name}, Spec: corev1.NodeSpec{ProviderID: "thing://another"}}
	l.must(shared.nodes.Create(t.Context(), successor))
	l.must(shared.client.Delete(t.Context(), l.machine))
	for _, o := range []*unstructured.Unstructured{l.infra, l.config} {
		l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		before := o.DeepCopy()
		o.SetFinalizers(nil)
		l.must(shared.client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	l.Eventually(func() bool {
		err := shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.machine), l.machine)
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(successor), successor))
}

// pod creates a Pod on the Node; it has no kubelet, so that an evicted Pod stays with a deletion timestamp.
func (l *testMachine) pod() *corev1.Pod {
	l.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: l.machine.Namespace},
		Spec:       corev1.PodSpec{NodeName: l.node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	l.must(shared.nodes.Create(l.Context(), pod))
	l.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	return pod
}

// untilCached waits until the last write to the Node is in the cache of the connection.
func (l *testMachine) untilCached() {
	l.Helper()
	l.must(shared.nodes.Get(l.Context(), client.ObjectKeyFromObject(l.node), l.node))
	l.Eventually(func(g gomega.Gomega) {
		connection, err := shared.reconciler.Workloads.Get(client.ObjectKey{Namespace: l.machine.Namespace, Name: "c"})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		cached, found := connection.Node(l.node.Name)
		g.Expect(found).To(gomega.BeTrue())
		g.Expect(cached.ResourceVersion).To(gomega.Equal(l.node.ResourceVersion))
	}).Should(gomega.Succeed())
}

// wantEvicted waits until the Pod is evicted, and checks that the instance is not deleted before the Pod has ended.
func (l *testMachine) wantEvicted(pod *corev1.Pod) {
	l.Helper()
	l.Eventually(func(g gomega.Gomega) {
		g.Expect(shared.client.Get(l.Context(), client.ObjectKeyFromObject(l.infra), l.infra)).To(gomega.Succeed())
		if l.infra.GetDeletionTimestamp() != nil {
			gomega.StopTrying("the instance is deleted before the drain has ended").Now()
		}
		g.Expect(shared.nodes.Get(l.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
		g.Expect(pod.DeletionTimestamp).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
}

// TestARegisteredAgainNodeIsDrained deletes a Machine whose Node was deleted and registered again by its kubelet, and has no
// providerID until the cloud controller manager writes it.
func TestARegisteredAgainNodeIsDrained(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	l.must(shared.nodes.Delete(t.Context(), l.node))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.GetReason(m, clusterv1.MachineNodeReadyCondition)).To(gomega.Equal(clusterv1.MachineNodeDeletedReason))
	})
	l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node.Name}}
	l.must(shared.nodes.Create(t.Context(), l.node))
	pod := l.pod()
	l.untilCached()
	l.must(shared.client.Delete(t.Context(), l.machine))
	l.wantEvicted(pod)
}

// TestANodeIsDrainedWhenItsProviderIDIsAssignedDuringDeletion deletes a Machine whose Node has joined and was never found,
// as it has no providerID.
func TestANodeIsDrainedWhenItsProviderIDIsAssignedDuringDeletion(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "assigned-"+rand.String(5))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) { g.Expect(m.Finalizers).NotTo(gomega.BeEmpty()) })
	l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.machine.Name}}
	l.must(shared.nodes.Create(t.Context(), l.node))
	t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), l.node) })
	bare := l.node.DeepCopy()
	l.node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	l.must(shared.nodes.Status().Patch(t.Context(), l.node, client.MergeFrom(bare)))
	pod := l.pod()
	l.report(l.infra, map[string]any{"providerID": "thing://" + l.machine.Namespace}, "spec")
	l.report(l.infra, map[string]any{
		"initialization": map[string]any{"provisioned": true},
		"addresses":      []any{map[string]any{"type": "InternalIP", "address": "10.0.0.7"}},
	}, "status")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) { g.Expect(m.Status.Addresses).NotTo(gomega.BeEmpty()) })
	before := l.machine.DeepCopy()
	l.machine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	l.must(shared.client.Patch(t.Context(), l.machine, client.MergeFrom(before)))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.IsTrue(m, clusterv1.PausedCondition)).To(gomega.BeTrue())
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: "c"}}
	l.must(shared.client.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"drover.io/assign-provider-ids":"true"}}}`))))
	l.untilCached()
	l.Eventually(func(g gomega.Gomega) {
		cached := &clusterv1.Cluster{}
		g.Expect(shared.reconciler.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cached)).To(gomega.Succeed())
		g.Expect(cached.Annotations).NotTo(gomega.BeEmpty())
	}).Should(gomega.Succeed())
	l.must(shared.client.Delete(t.Context(), l.machine))
	l.must(shared.client.Patch(t.Context(), l.machine, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
	l.wantEvicted(pod)
	l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if want := "thing://" + l.machine.Namespace; l.node.Spec.ProviderID != want {
		t.Errorf("the Node has providerID %q, want %q", l.node.Spec.ProviderID, want)
	}
}

// TestDeletionWaitsForAMissingCluster deletes a Machine whose Cluster was deleted by mistake, or is not restored yet. Nothing
// can be drained without it.
func TestDeletionWaitsForAMissingCluster(t *testing.T) {
	t.Parallel()
	for name, goOn := range map[string]func(l *testMachine, pod *corev1.Pod){
		"until it is created again": func(l *testMachine, pod *corev1.Pod) {
			l.must(shared.client.Create(l.Context(), testCluster(l.machine.Namespace)))
			l.wantEvicted(pod)
		},
		"unless the drain is excluded": func(l *testMachine, _ *corev1.Pod) {
			before := l.machine.DeepCopy()
			l.machine.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: "", clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation: ""}
			l.must(shared.client.Patch(l.Context(), l.machine, client.MergeFrom(before)))
			l.Eventually(func(g gomega.Gomega) {
				g.Expect(shared.client.Get(l.Context(), client.ObjectKeyFromObject(l.infra), l.infra)).To(gomega.Succeed())
				g.Expect(l.infra.GetDeletionTimestamp()).NotTo(gomega.BeNil())
			}).Should(gomega.Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestMachine(t, "m")
			l.provision()
			pod := l.pod()
			l.must(shared.client.Delete(t.Context(), testCluster(l.machine.Namespace)))
			l.Eventually(func() error {
				cached := testCluster(l.machine.Namespace)
				return shared.reconciler.Client.Get(t.Context(), client.ObjectKeyFromObject(cached), cached)
			}).Should(gomega.MatchError(apierrors.IsNotFound, "IsNotFound"))
			l.must(shared.client.Delete(t.Context(), l.machine))
			l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
				g.Expect(conditions.GetReason(m, clusterv1.MachineDeletingCondition)).To(gomega.Equal(clusterv1.MachineDeletingDrainingNodeReason))
				g.Expect(conditions.GetMessage(m, clusterv1.MachineDeletingCondition)).To(gomega.HavePrefix(`Cluster "c" does not exist; the drain waits for it.`))
			})
			l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra))
			if l.infra.GetDeletionTimestamp() != nil {
				t.Fatal("the instance is deleted without a drain")
			}
			goOn(l, pod)
		})
	}
}

// TestAnUnobservedNodeIsDeleted deletes a Machine whose host registered its Node after the last look at the cache, and
// another whose name is that of a Node of something else.
func TestAnUnobservedNodeIsDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		providerID string
		want       bool
	}{
		"its own":                    {"thing://own", true},
		"of another virtual machine": {"thing://another", false},
		"of what has no providerID":  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestMachine(t, "m")
			l.provision()
			registered := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unseen-" + l.machine.Namespace}, Spec: corev1.NodeSpec{ProviderID: test.providerID}}
			if test.want {
				registered.Spec.ProviderID += "/" + l.machine.Namespace
			}
			l.must(shared.nodes.Create(t.Context(), registered))
			t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), registered) })
			m := l.machine.DeepCopy()
			m.Name, m.Status.NodeRef = registered.Name, clusterv1.MachineNodeReference{}
			m.Spec.ProviderID = "thing://own/" + l.machine.Namespace
			s := &state{machine: m, cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c"}}, node: observed[corev1.Node]{err: notFound}}
			s.infra.err, s.bootstrap.err = notFound, notFound
			if progress, err := shared.reconciler.deleter.Run(t.Context(), s.forDeletion(false)); !progress.Done || err != nil {
				t.Fatalf("progress %+v, error %v", progress, err)
			}
			err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(registered), registered)
			if apierrors.IsNotFound(err) != test.want {
				t.Errorf("the Node: %v, want deleted %t", err, test.want)
			}
		})
	}
}

// No other object is necessary for a stand-alone Machine to be deleted after its Cluster.
func TestMachineWithoutCluster(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) { g.Expect(m.OwnerReferences).NotTo(gomega.BeEmpty()) })
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: "c"}}
	l.must(shared.client.Delete(t.Context(), cluster))
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) { // as the garbage collector, or a person, leaves it
		before := m.DeepCopy()
		m.OwnerReferences = nil
		g.Expect(shared.client.Patch(t.Context(), m, client.MergeFrom(before))).To(gomega.Succeed())
	})
	l.must(shared.client.Delete(t.Context(), l.machine))
	for _, o := range []*unstructured.Unstructured{l.infra, l.config} {
		l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		before := o.DeepCopy()
		o.SetFinalizers(nil)
		l.must(shared.client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	l.Eventually(func() bool {
		err := shared.client.Get(t.Context(), client.ObjectKeyFromObject(l.machine), l.machine)
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
}

// TestProviderIDAndNodeRefAreWrittenBeforeTheInstanceIsDeleted deletes a Machine before any status has its Node. It is paused for the
// controller, so that the test takes the steps.
func TestProviderIDAndNodeRefAreWrittenBeforeTheInstanceIsDeleted(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		before := m.DeepCopy()
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		g.Expect(m.Finalizers).NotTo(gomega.BeEmpty())
		g.Expect(shared.client.Patch(t.Context(), m, client.MergeFrom(before))).To(gomega.Succeed())
	})
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.IsTrue(m, clusterv1.PausedCondition)).To(gomega.BeTrue())
	})
	id := "thing://" + l.machine.Namespace
	l.report(l.infra, map[string]any{"providerID": id}, "spec")
	l.report(l.infra, map[string]any{"initialization": map[string]any{"provisioned": true}}, "status")
	l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.machine.Namespace}, Spec: corev1.NodeSpec{ProviderID: id}}
	l.must(shared.nodes.Create(t.Context(), l.node))
	t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), l.node) })
	l.must(shared.client.Delete(t.Context(), l.machine))
	// step reconciles once everything that the test has done so far is in the caches.
	step := func() {
		t.Helper()
		l.Eventually(func(g gomega.Gomega) {
			connection, err := shared.reconciler.Workloads.Get(client.ObjectKey{Namespace: l.machine.Namespace, Name: "c"})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(connection.NodesByProviderID(id)).To(gomega.HaveLen(1))
			for _, o := range []client.Object{l.infra, l.config, l.machine} {
				g.Expect(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
				cached, _ := o.DeepCopyObject().(client.Object)
				g.Expect(shared.reconciler.Client.Get(t.Context(), client.ObjectKeyFromObject(o), cached)).To(gomega.Succeed())
				g.Expect(cached.GetResourceVersion()).To(gomega.Equal(o.GetResourceVersion()))
			}
		}).Should(gomega.Succeed())
		awake := l.machine.DeepCopy()
		awake.Annotations = nil
		if _, err := shared.reconciler.Reconcile(t.Context(), awake); err != nil {
			t.Fatal(err)
		}
		for _, o := range []client.Object{l.infra, l.machine} {
			l.must(shared.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		}
	}
	for range 10 { // cordon and drain take a step each, and so does a conflict
		written := l.machine.Spec.ProviderID == id && l.machine.Status.NodeRef.Name == l.node.Name
		step()
		if l.infra.GetDeletionTimestamp() == nil {
			continue
		}
		if !written {
			t.Errorf("the virtual machine is deleted before the Machine has its providerID and Node; it has %q and %q", l.machine.Spec.ProviderID, l.machine.Status.NodeRef.Name)
		}
		return
	}
	t.Error("the virtual machine is never deleted")
}
