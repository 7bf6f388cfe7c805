// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fullNode is what a kubelet with 50 images, the most that it reports, makes
// of a Node.
func fullNode(name string) *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), ResourceVersion: "100", CreationTimestamp: at,
			Labels: map[string]string{
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
				"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", corev1.LabelHostname: name,
				corev1.LabelInstanceTypeStable: "cx32", corev1.LabelTopologyRegion: "eu-central", corev1.LabelTopologyZone: "fsn1",
				"node.cluster.x-k8s.io/pool": "workers",
			},
			Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation:                       `{"apiVersion":"v1","kind":"Node","metadata":{"annotations":{},"name":"n"}}`,
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
				"node.alpha.kubernetes.io/ttl":                           "0",
				"csi.volume.kubernetes.io/nodeid":                        `{"csi.hetzner.cloud":"12345678"}`,
				"cluster.x-k8s.io/machine":                               name,
			},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 2600))},
				{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 900))},
			},
			Finalizers: []string{"example.com/keep"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "hcloud://" + name, PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"},
			Taints: []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    resources(),
			Allocatable: resources(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.0.0.4"}, {Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: "3c1b3a6d4f0e4f6db1b2a7a1c9d8e7f6", SystemUUID: "3c1b3a6d-4f0e-4f6d-b1b2-a7a1c9d8e7f6", BootID: "8f14e45f-ceea-467f-a0c5-5e2b7d1c3a90",
				KernelVersion: "6.8.0-60-generic", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://2.1.1",
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
			},
			VolumesInUse:    []corev1.UniqueVolumeName{"kubernetes.io/csi/csi.hetzner.cloud^1"},
			VolumesAttached: []corev1.AttachedVolume{{Name: "kubernetes.io/csi/csi.hetzner.cloud^1"}},
		},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionTrue, LastHeartbeatTime: at, LastTransitionTime: at,
			Reason: "Kubelet" + string(kind), Message: "kubelet reports " + string(kind),
		})
	}
	for i := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example.com/some/team/application-%02d@sha256:%064d", i, i),
				fmt.Sprintf("registry.example.com/some/team/application-%02d:v1.%d.0", i, i),
			},
			SizeBytes: 123456789,
		})
	}
	return node
}

func resources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8131552Ki"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("78561448Ki"),
		"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
}

func TestSlimKeepsOnlyWhatControllersRead(t *testing.T) {
	t.Parallel()
	full := fullNode("a")
	original := full.DeepCopy()

	want := full.DeepCopy()
	want.ManagedFields = nil
	delete(want.Annotations, corev1.LastAppliedConfigAnnotation)
	want.Spec.PodCIDR, want.Spec.PodCIDRs = "", nil
	want.Status.Phase = ""
	want.Status.Capacity, want.Status.Allocatable = nil, nil
	want.Status.DaemonEndpoints = corev1.NodeDaemonEndpoints{}
	want.Status.VolumesInUse, want.Status.Images = nil, nil
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	if diff := cmp.Diff(want, Slim(full)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(original, full); diff != "" {
		t.Errorf("the original was changed: -before +after:\n%s", diff)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	later := metav1.NewTime(time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC))
	tests := map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"is a heartbeat": {func(n *corev1.Node) {
			for i := range n.Status.Conditions {
				n.Status.Conditions[i].LastHeartbeatTime = later
			}
		}, true},
		"is a pulled image":                {func(n *corev1.Node) { n.Status.Images = n.Status.Images[:10] }, true},
		"is a volume in use":               {func(n *corev1.Node) { n.Status.VolumesInUse = nil }, true},
		"is an allocatable resource":       {func(n *corev1.Node) { delete(n.Status.Allocatable, corev1.ResourcePods) }, true},
		"is a field manager":               {func(n *corev1.Node) { n.ManagedFields = nil }, true},
		"detects a condition":              {func(n *corev1.Node) { n.Status.Conditions[3].Status = corev1.ConditionUnknown }, false},
		"detects a condition's reason":     {func(n *corev1.Node) { n.Status.Conditions[3].Reason = "Other" }, false},
		"detects a transition time":        {func(n *corev1.Node) { n.Status.Conditions[3].LastTransitionTime = later }, false},
		"detects a label":                  {func(n *corev1.Node) { n.Labels["a"] = "b" }, false},
		"detects an annotation":            {func(n *corev1.Node) { n.Annotations["a"] = "b" }, false},
		"detects a taint":                  {func(n *corev1.Node) { n.Spec.Taints = nil }, false},
		"detects cordoning":                {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"detects a providerID":             {func(n *corev1.Node) { n.Spec.ProviderID = "hcloud://2" }, false},
		"detects an address":               {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.5" }, false},
		"detects an attached volume":       {func(n *corev1.Node) { n.Status.VolumesAttached = nil }, false},
		"detects a kubelet's version":      {func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.0" }, false},
		"detects that deletion began":      {func(n *corev1.Node) { n.DeletionTimestamp = &later }, false},
		"detects another of that name":     {func(n *corev1.Node) { n.UID = "another" }, false},
		"detects that a finalizer is gone": {func(n *corev1.Node) { n.Finalizers = nil }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := fullNode("a")
			next.ResourceVersion = "200"
			test.change(next)
			if got := same(Slim(fullNode("a")), Slim(next)); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// BenchmarkMemory reports how much heap a Node takes when it is kept as the API
// server sends it, without managed fields as upstream keeps it, and slim.
func BenchmarkMemory(b *testing.B) {
	variants := map[string]func(*corev1.Node) *corev1.Node{
		"full":                  func(n *corev1.Node) *corev1.Node { return n },
		"without managedFields": func(n *corev1.Node) *corev1.Node { n.ManagedFields = nil; return n },
		"slim":                  Slim,
	}
	for name, keep := range variants {
		b.Run(name, func(b *testing.B) {
			const nodes = 1000
			for range b.N {
				encoded := encodedNodes(b, nodes)
				kept := make([]*corev1.Node, nodes)
				before := heap()
				for i, raw := range encoded {
					node := &corev1.Node{}
					if err := node.Unmarshal(raw); err != nil {
						b.Fatal(err)
					}
					kept[i] = keep(node)
				}
				b.ReportMetric(float64(heap()-before)/nodes/1024, "KiB/Node")
				runtime.KeepAlive(kept)
				runtime.KeepAlive(encoded)
			}
		})
	}
}

func encodedNodes(b *testing.B, count int) [][]byte {
	b.Helper()
	encoded := make([][]byte, count)
	for i := range encoded {
		raw, err := fullNode(fmt.Sprintf("node-%05d", i)).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		encoded[i] = raw
	}
	return encoded
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
