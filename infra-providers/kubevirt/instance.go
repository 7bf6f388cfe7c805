// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	virtv1 "kubevirt.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/requesterror"
)

const (
	// pollInterval is the time until a virtual machine that starts or stops is read again.
	pollInterval = 5 * time.Second
	// providerIDPrefix starts a providerID, as KubeVirt's cloud controller manager writes it into the Node.
	providerIDPrefix = "kubevirt://"
	// namePrefix starts the name of everything of ours.
	namePrefix = "drover-"
)

// vmName returns the name of the VirtualMachine, and of the Secret, of a machine; empty if its UID can be part of none.
func vmName(uid types.UID) string {
	name := namePrefix + string(uid)
	if uid == "" || len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// instanceName returns the name of the VirtualMachine of an identity; empty if there can be none.
func instanceName(id driver.Identity) string {
	if id.ProviderID == "" {
		return vmName(id.UID)
	}
	name, ours := strings.CutPrefix(id.ProviderID, providerIDPrefix)
	if !ours || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

// isPartOf reports whether an object is what Create or KubeVirt made beside a VirtualMachine, and no copy of that.
func isPartOf(id driver.Identity, object client.Object) bool {
	own, name := vmName(id.UID), object.GetName()
	if object.GetObjectKind().GroupVersionKind().GroupKind() != dataVolumes.GroupKind() {
		return own != "" && name == own
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return own != "" && strings.HasPrefix(name, own+"-") && owner != nil && owner.Kind == virtv1.VirtualMachineGroupVersionKind.Kind && owner.Name == own
}

// identity reads the tags of an object. Labels select, and annotations decide: their values may have any length.
func identity(object metav1.Object) driver.Identity {
	id, _ := driver.FromTags(object.GetAnnotations())
	return id
}

// observed is what a VirtualMachine runs as, without what a list would keep in memory for nothing.
type observed struct {
	// uid is that of the VirtualMachineInstance, node where it runs, and inPodNetwork whether it has the address of its Pod.
	uid          types.UID
	node         string
	inPodNetwork bool
	// ended is true when it does not run any more.
	ended bool
	// causes are the messages of the conditions that it waits for, and eviction is why it has to leave its node.
	causes   map[string]string
	eviction string
	// given are addresses that the infrastructure cluster gave, and reported all others.
	given, reported []clusterv1.MachineAddress
}

// toObserved converts a VirtualMachineInstance and those of its Pods that are known yet.
func toObserved(running *virtv1.VirtualMachineInstance, pods ...corev1.Pod) *observed {
	if running == nil {
		return nil
	}
	found := &observed{
		uid: running.UID, node: running.Status.NodeName, ended: running.IsFinal(), causes: toCauses(running), eviction: toEviction(running),
		inPodNetwork: slices.ContainsFunc(running.Spec.Networks, func(n virtv1.Network) bool { return n.Pod != nil }),
		reported:     toReported(running),
	}
	for i := range pods {
		found.addPod(&pods[i])
	}
	return found
}

// runsIn reports whether a Pod is on the node that the virtual machine runs on: there are two during a migration. After it KubeVirt
// keeps the one that has ended, so a virtual machine that has come back to a node has several there.
func (o *observed) runsIn(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.UID == o.uid && pod.Spec.NodeName == o.node
}

// addPod adds the addresses of a Pod, if it is the one that the virtual machine runs in and it is in the pod network. Those of one
// that has ended may be another's by now. KubeVirt mixes the others with what the guest agent reports, so root in the guest chooses
// them.
func (o *observed) addPod(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if !o.inPodNetwork || !o.runsIn(pod) || ended {
		return
	}
	for _, ip := range pod.Status.PodIPs {
		o.given = appendAddress(o.given, ip.IP)
	}
}

// toInstance converts a VirtualMachine and what it runs as, nil for nothing.
func toInstance(vm *virtv1.VirtualMachine, running *observed) driver.Instance {
	instance := driver.Instance{
		ID:         vm.Name,
		ProviderID: providerIDPrefix + vm.Name,
		Identity:   identity(vm),
		Created:    vm.CreationTimestamp.Time,
		State:      toState(vm, running),
	}
	instance.Identity.ProviderID = instance.ProviderID
	if vm.Spec.Template != nil {
		instance.FailureDomain = vm.Spec.Template.Spec.NodeSelector[corev1.LabelTopologyZone]
	}
	if running != nil {
		instance.Addresses = running.given
		instance.Reported = slices.DeleteFunc(slices.Clone(running.reported), func(a clusterv1.MachineAddress) bool { return slices.Contains(running.given, a) })
	}
	switch instance.State {
	case driver.Running:
		instance.Eviction = running.eviction
	case driver.Pending, driver.Stopping:
		instance.PollAfter = pollInterval
		fallthrough
	default:
		instance.Message = toMessage(vm, running)
	}
	return instance
}

// toState returns the state of a VirtualMachine. One that is migrated runs. One that KubeVirt starts again by itself is
// Pending meanwhile; one with an empty disk is not started again, as its strategy is Once.
func toState(vm *virtv1.VirtualMachine, running *observed) driver.State {
	if !vm.DeletionTimestamp.IsZero() {
		return driver.Stopping
	}
	switch statusOf(vm) {
	case virtv1.VirtualMachineStatusRunning, virtv1.VirtualMachineStatusMigrating:
		if running == nil || running.ended { // it has ended since, or is about to
			return driver.Pending
		}
		return driver.Running
	case virtv1.VirtualMachineStatusPaused:
		return driver.Stopped
	case virtv1.VirtualMachineStatusStopped, virtv1.VirtualMachineStatusCrashLoopBackOff:
		if strategy, err := vm.RunStrategy(); err == nil && willStart(strategy, running) {
			return driver.Pending
		}
		return driver.Stopped
	case virtv1.VirtualMachineStatusStopping:
		if strategy, err := vm.RunStrategy(); err == nil && strategy == virtv1.RunStrategyHalted {
			return driver.Stopped
		}
		return driver.Pending
	default:
		return driver.Pending
	}
}

// statusOf returns the status of a VirtualMachine. One whose strategy was set to Halted is Stopping before KubeVirt says so.
func statusOf(vm *virtv1.VirtualMachine) virtv1.VirtualMachinePrintableStatus {
	status := vm.Status.PrintableStatus
	strategy, err := vm.RunStrategy()
	if err == nil && strategy == virtv1.RunStrategyHalted && (status == virtv1.VirtualMachineStatusRunning || status == virtv1.VirtualMachineStatusMigrating) {
		return virtv1.VirtualMachineStatusStopping
	}
	return status
}

// willStart reports whether KubeVirt starts a virtual machine that does not run, without being asked to. With Once it does as long
// as nothing runs or has run: the VirtualMachineInstance remains.
func willStart(strategy virtv1.VirtualMachineRunStrategy, running *observed) bool {
	switch strategy {
	case virtv1.RunStrategyAlways, virtv1.RunStrategyRerunOnFailure:
		return true
	case virtv1.RunStrategyOnce:
		return running == nil
	default:
		return false
	}
}

// problems are the conditions that have the cause of what a VirtualMachine waits for.
var problems = []string{string(corev1.PodScheduled), string(virtv1.VirtualMachineFailure), string(virtv1.VirtualMachineInstanceSynchronized), string(virtv1.VirtualMachineInstanceDataVolumesReady)}

// toMessage returns what KubeVirt reports about a VirtualMachine that does not run: lack of capacity is ErrorUnschedulable.
func toMessage(vm *virtv1.VirtualMachine, running *observed) string {
	status, cause := statusOf(vm), toCause(vm, running)
	switch status {
	case virtv1.VirtualMachineStatusStarting, virtv1.VirtualMachineStatusRunning, virtv1.VirtualMachineStatusTerminating:
		status = ""
	}
	if status == "" || cause == "" {
		return requesterror.Truncate(string(status) + cause)
	}
	return requesterror.Truncate(string(status) + ": " + cause)
}

// toCause returns the message of the condition that a VirtualMachine waits for.
func toCause(vm *virtv1.VirtualMachine, running *observed) string {
	causes := map[string]string{}
	for _, condition := range vm.Status.Conditions {
		if condition.Type == virtv1.VirtualMachineFailure && condition.Status == corev1.ConditionTrue {
			causes[string(condition.Type)] = condition.Message
		}
	}
	if running != nil {
		maps.Copy(causes, running.causes)
	}
	for _, problem := range problems {
		if cause := causes[problem]; cause != "" {
			return cause
		}
	}
	return ""
}

// toCauses returns the messages of the conditions that a VirtualMachineInstance waits for.
func toCauses(running *virtv1.VirtualMachineInstance) map[string]string {
	causes := map[string]string{}
	for _, condition := range running.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && slices.Contains(problems, string(condition.Type)) {
			causes[string(condition.Type)] = requesterror.Truncate(condition.Message)
		}
	}
	return causes
}

// toEviction returns why a VirtualMachineInstance has to leave its node, if it is not migrated: KubeVirt waits for its deletion.
func toEviction(running *virtv1.VirtualMachineInstance) string {
	strategy := running.Spec.EvictionStrategy
	if running.Status.EvacuationNodeName == "" || strategy == nil || *strategy != virtv1.EvictionStrategyExternal {
		return ""
	}
	return requesterror.Truncate("node " + running.Status.EvacuationNodeName + " of the infrastructure cluster is drained")
}

// maxAddresses is how many addresses of a kind are kept: root in the guest may report any number.
const maxAddresses = 256

// toReported returns the addresses of the interfaces, some of which the guest agent reports.
func toReported(running *virtv1.VirtualMachineInstance) (reported []clusterv1.MachineAddress) {
	for _, nic := range running.Status.Interfaces {
		for _, ip := range append([]string{nic.IP}, nic.IPs...) {
			reported = appendAddress(reported, ip)
		}
	}
	byAddress := func(a, b clusterv1.MachineAddress) int { return cmp.Compare(a.Address, b.Address) }
	slices.SortStableFunc(reported, byAddress)
	return reported
}

// appendAddress adds an address once, unless no other host can reach it.
func appendAddress(all []clusterv1.MachineAddress, ip string) []clusterv1.MachineAddress {
	parsed, err := netip.ParseAddr(ip)
	added := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip}
	if err != nil || len(all) >= maxAddresses || parsed.Zone() != "" || parsed.IsLinkLocalUnicast() || parsed.IsLoopback() || slices.Contains(all, added) {
		return all
	}
	return append(all, added)
}
