// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

func TestStates(t *testing.T) {
	t.Parallel()
	full := virtv1.VirtualMachineInstanceCondition{Type: virtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled), Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}
	noPod := virtv1.VirtualMachineInstanceCondition{Type: virtv1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse, Message: "exceeded quota"}
	for name, test := range map[string]struct {
		status   virtv1.VirtualMachinePrintableStatus
		strategy virtv1.VirtualMachineRunStrategy
		running  *virtv1.VirtualMachineInstance
		want     driver.State
		message  string
	}{
		"waits for KubeVirt":                  {"", virtv1.RunStrategyAlways, nil, driver.Pending, ""},
		"has no Pod for lack of quota":        {virtv1.VirtualMachineStatusStarting, virtv1.RunStrategyAlways, withCondition(noPod), driver.Pending, "exceeded quota"},
		"starts":                              {virtv1.VirtualMachineStatusStarting, virtv1.RunStrategyAlways, nil, driver.Pending, ""},
		"runs":                                {virtv1.VirtualMachineStatusRunning, virtv1.RunStrategyOnce, &virtv1.VirtualMachineInstance{}, driver.Running, ""},
		"runs while it is migrated":           {virtv1.VirtualMachineStatusMigrating, virtv1.RunStrategyAlways, &virtv1.VirtualMachineInstance{}, driver.Running, ""},
		"has just ended":                      {virtv1.VirtualMachineStatusRunning, virtv1.RunStrategyAlways, nil, driver.Pending, ""},
		"lacks capacity":                      {virtv1.VirtualMachineStatusUnschedulable, virtv1.RunStrategyAlways, withCondition(full), driver.Pending, "ErrorUnschedulable: 0/3 nodes are available"},
		"has an image that cannot be pulled":  {virtv1.VirtualMachineStatusErrImagePull, virtv1.RunStrategyOnce, &virtv1.VirtualMachineInstance{}, driver.Pending, "ErrImagePull"},
		"is paused":                           {virtv1.VirtualMachineStatusPaused, virtv1.RunStrategyAlways, &virtv1.VirtualMachineInstance{}, driver.Stopped, "Paused"},
		"is started again by KubeVirt":        {virtv1.VirtualMachineStatusStopped, virtv1.RunStrategyAlways, nil, driver.Pending, "Stopped"},
		"has an empty disk and has ended":     {virtv1.VirtualMachineStatusStopped, virtv1.RunStrategyOnce, &virtv1.VirtualMachineInstance{}, driver.Stopped, "Stopped"},
		"has an empty disk and starts":        {virtv1.VirtualMachineStatusStopped, virtv1.RunStrategyOnce, nil, driver.Pending, "Stopped"},
		"was stopped":                         {virtv1.VirtualMachineStatusStopped, virtv1.RunStrategyHalted, nil, driver.Stopped, "Stopped"},
		"is being stopped":                    {virtv1.VirtualMachineStatusStopping, virtv1.RunStrategyHalted, &virtv1.VirtualMachineInstance{}, driver.Stopped, "Stopping"},
		"was stopped a moment ago":            {virtv1.VirtualMachineStatusRunning, virtv1.RunStrategyHalted, &virtv1.VirtualMachineInstance{}, driver.Stopped, "Stopping"},
		"was stopped while it is migrated":    {virtv1.VirtualMachineStatusMigrating, virtv1.RunStrategyHalted, &virtv1.VirtualMachineInstance{}, driver.Stopped, "Stopping"},
		"is stopped and started":              {virtv1.VirtualMachineStatusStopping, virtv1.RunStrategyAlways, &virtv1.VirtualMachineInstance{}, driver.Pending, "Stopping"},
		"has a status of a newer KubeVirt":    {"Teleporting", virtv1.RunStrategyAlways, nil, driver.Pending, "Teleporting"},
		"crashes with an empty disk":          {virtv1.VirtualMachineStatusCrashLoopBackOff, virtv1.RunStrategyOnce, &virtv1.VirtualMachineInstance{}, driver.Stopped, "CrashLoopBackOff"},
		"crashes and is started again, later": {virtv1.VirtualMachineStatusCrashLoopBackOff, virtv1.RunStrategyAlways, &virtv1.VirtualMachineInstance{}, driver.Pending, "CrashLoopBackOff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := newVM(test.strategy)
			vm.Status.PrintableStatus = test.status
			got := toInstance(vm, toObserved(test.running))
			if got.State != test.want || got.Message != test.message {
				t.Errorf("got %s %q, want %s %q", got.State, got.Message, test.want, test.message)
			}
			vm.DeletionTimestamp = ptr.To(metav1.Now())
			if got := toInstance(vm, toObserved(test.running)); got.State != driver.Stopping {
				t.Errorf("being deleted: got %s", got.State)
			}
		})
	}
}

// TestEviction: only a virtual machine that KubeVirt does not migrate has to be deleted for the drain of its node.
func TestEviction(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[virtv1.EvictionStrategy]string{
		virtv1.EvictionStrategyExternal:    "node node-1 of the infrastructure cluster is drained",
		virtv1.EvictionStrategyLiveMigrate: "", virtv1.EvictionStrategyLiveMigrateIfPossible: "",
	} {
		vm := newVM(virtv1.RunStrategyAlways)
		vm.Status.PrintableStatus = virtv1.VirtualMachineStatusRunning
		running := &virtv1.VirtualMachineInstance{Spec: virtv1.VirtualMachineInstanceSpec{EvictionStrategy: &strategy}}
		if got := toInstance(vm, toObserved(running)).Eviction; got != "" {
			t.Errorf("%s: got %q before the drain", strategy, got)
		}
		running.Status.EvacuationNodeName = "node-1"
		if got := toInstance(vm, toObserved(running)).Eviction; got != want {
			t.Errorf("%s: got %q, want %q", strategy, got, want)
		}
	}
}

// TestAddresses: what the guest agent reports is never an address that the cluster gave. During a migration the Pod on the node
// that the virtual machine runs on counts, and after several migrations none that has ended there: its address may be that of
// another Pod by now.
func TestAddresses(t *testing.T) {
	t.Parallel()
	running := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "vm", UID: "u"}}
	running.Spec.Networks = []virtv1.Network{{Name: "pods", NetworkSource: virtv1.NetworkSource{Pod: &virtv1.PodNetwork{}}}}
	running.Status.NodeName = "node-1"
	running.Status.Interfaces = []virtv1.VirtualMachineInstanceNetworkInterface{
		{Name: "pods", IP: "10.244.0.5", IPs: []string{"10.244.0.5", "fe80::5"}, InfoSource: "domain, guest-agent"},
		{InterfaceName: "docker0", IP: "172.17.0.1", InfoSource: "guest-agent"}, {IP: "not an address"}, {IP: "127.0.0.1"}, {IP: "fd00::7%eth0"},
	}
	pod := func(node, ip string, owner types.UID) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "VirtualMachineInstance", Name: "vm", UID: owner, Controller: ptr.To(true)}}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: ip}, {IP: "fd00::" + ip[len(ip)-1:]}}},
		}
	}
	pods := []corev1.Pod{pod("node-2", "10.244.1.9", "u"), pod("node-1", "10.244.0.5", "u"), pod("node-1", "10.244.0.7", "other")}
	vm := newVM(virtv1.RunStrategyAlways)
	found := toInstance(vm, toObserved(running, pods...))
	given, reported := found.Addresses, found.Reported
	if diff := cmp.Diff(internal("10.244.0.5", "fd00::5"), given); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(internal("172.17.0.1"), reported); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		before := pod("node-1", "10.244.0.8", "u")
		before.Status.Phase = phase
		if diff := cmp.Diff(given, toInstance(vm, toObserved(running, append(pods, before)...)).Addresses); diff != "" {
			t.Errorf("with a Pod on the same node that is %s (-want +got):\n%s", phase, diff)
		}
	}
	running.Spec.Networks = []virtv1.Network{{Name: "pods", NetworkSource: virtv1.NetworkSource{Multus: &virtv1.MultusNetwork{}}}}
	if given := toInstance(vm, toObserved(running, pods...)).Addresses; len(given) > 0 {
		t.Errorf("without the pod network: got %v", given)
	}
}

func internal(ips ...string) (all []clusterv1.MachineAddress) {
	for _, ip := range ips {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip})
	}
	return all
}

// TestNames: no UID or provider ID that a user writes becomes a part of a path, or the name of something else.
func TestNames(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]string{
		"6a1f1f6e-0000-4000-8000-000000000001": "drover-6a1f1f6e-0000-4000-8000-000000000001",
		"":                                     "", "../../secrets/x": "", "A": "", "a b": "", "a.b": "", types.UID(make([]byte, 80)): "",
	} {
		if got := instanceName(driver.Identity{UID: uid}); got != want {
			t.Errorf("UID %q: got %q, want %q", uid, got, want)
		}
	}
	for id, want := range map[string]string{
		"kubevirt://drover-1": "drover-1", "kubevirt://": "", "kubevirt://../x": "", "kubevirt://a/b": "", "kubevirt://A": "", "aws:///zone/i-1": "", "drover-1": "",
	} {
		if got := instanceName(driver.Identity{ProviderID: id, UID: "u"}); got != want {
			t.Errorf("provider ID %q: got %q, want %q", id, got, want)
		}
	}
}

func newVM(strategy virtv1.VirtualMachineRunStrategy) *virtv1.VirtualMachine {
	return &virtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-1", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
		Spec:       virtv1.VirtualMachineSpec{RunStrategy: &strategy},
	}
}

func withCondition(condition virtv1.VirtualMachineInstanceCondition) *virtv1.VirtualMachineInstance {
	return &virtv1.VirtualMachineInstance{Status: virtv1.VirtualMachineInstanceStatus{Conditions: []virtv1.VirtualMachineInstanceCondition{condition}}}
}
