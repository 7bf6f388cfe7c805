// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
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

// isNameOf reports whether an object has a name that the objects beside a VirtualMachine get.
func isNameOf(id driver.Identity, name string) bool {
	own := vmName(id.UID)
	return own != "" && (name == own || strings.HasPrefix(name, own+"-"))
}

// identity reads the tags of an object. Labels select, and annotations decide: their values may have any length.
func identity(object metav1.Object) driver.Identity {
	id, _ := driver.FromTags(object.GetAnnotations())
	return id
}

// toInstance converts a VirtualMachine and what it runs as.
func toInstance(vm *virtv1.VirtualMachine, running *virtv1.VirtualMachineInstance, pods []corev1.Pod) driver.Instance {
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
		instance.Addresses, instance.Reported = toAddresses(running, pods)
	}
	switch instance.State {
	case driver.Running:
		instance.Eviction = toEviction(running)
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
func toState(vm *virtv1.VirtualMachine, running *virtv1.VirtualMachineInstance) driver.State {
	if !vm.DeletionTimestamp.IsZero() {
		return driver.Stopping
	}
	switch vm.Status.PrintableStatus {
	case virtv1.VirtualMachineStatusRunning, virtv1.VirtualMachineStatusMigrating:
		if running == nil || running.IsFinal() { // it has ended since, or is about to
			return driver.Pending
		}
		return driver.Running
	case virtv1.VirtualMachineStatusPaused:
		return driver.Stopped
	case virtv1.VirtualMachineStatusStopped, virtv1.VirtualMachineStatusCrashLoopBackOff:
		if strategy, err := vm.RunStrategy(); err == nil && (strategy == virtv1.RunStrategyAlways || strategy == virtv1.RunStrategyRerunOnFailure) {
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

// problems are the conditions that have the cause of what a VirtualMachine waits for.
var problems = []string{string(corev1.PodScheduled), string(virtv1.VirtualMachineFailure), string(virtv1.VirtualMachineInstanceSynchronized), string(virtv1.VirtualMachineInstanceDataVolumesReady)}

// toMessage returns what KubeVirt reports about a VirtualMachine that does not run: lack of capacity is ErrorUnschedulable.
func toMessage(vm *virtv1.VirtualMachine, running *virtv1.VirtualMachineInstance) string {
	status, cause := string(vm.Status.PrintableStatus), toCause(vm, running)
	switch vm.Status.PrintableStatus {
	case virtv1.VirtualMachineStatusStarting, virtv1.VirtualMachineStatusRunning, virtv1.VirtualMachineStatusTerminating:
		status = ""
	}
	if status == "" || cause == "" {
		return requesterror.Truncate(status + cause)
	}
	return requesterror.Truncate(status + ": " + cause)
}

// toCause returns the message of the condition that a VirtualMachine waits for.
func toCause(vm *virtv1.VirtualMachine, running *virtv1.VirtualMachineInstance) string {
	causes := map[string]string{}
	for _, condition := range vm.Status.Conditions {
		if condition.Type == virtv1.VirtualMachineFailure && condition.Status == corev1.ConditionTrue {
			causes[string(condition.Type)] = condition.Message
		}
	}
	if running != nil {
		for _, condition := range running.Status.Conditions {
			if condition.Status == corev1.ConditionFalse {
				causes[string(condition.Type)] = condition.Message
			}
		}
	}
	for _, problem := range problems {
		if cause := causes[problem]; cause != "" {
			return cause
		}
	}
	return ""
}

// toEviction returns why a VirtualMachineInstance has to leave its node, if it is not migrated: KubeVirt waits for its deletion.
func toEviction(running *virtv1.VirtualMachineInstance) string {
	strategy := running.Spec.EvictionStrategy
	if running.Status.EvacuationNodeName == "" || strategy == nil || *strategy != virtv1.EvictionStrategyExternal {
		return ""
	}
	return "node " + running.Status.EvacuationNodeName + " of the infrastructure cluster is drained"
}

// toAddresses returns the addresses that the infrastructure cluster gave: those of the Pod on the node that the virtual machine
// runs on, if it is in the pod network. KubeVirt mixes the others with what the guest agent reports, so root in the guest
// chooses them.
func toAddresses(running *virtv1.VirtualMachineInstance, pods []corev1.Pod) (given, reported []clusterv1.MachineAddress) {
	if slices.ContainsFunc(running.Spec.Networks, func(n virtv1.Network) bool { return n.Pod != nil }) {
		for _, pod := range pods {
			if pod.Spec.NodeName == running.Status.NodeName && metav1.IsControlledBy(&pod, running) {
				for _, ip := range pod.Status.PodIPs {
					given = appendAddress(given, ip.IP)
				}
			}
		}
	}
	for _, nic := range running.Status.Interfaces {
		for _, ip := range append([]string{nic.IP}, nic.IPs...) {
			reported = appendAddress(reported, ip)
		}
	}
	reported = slices.DeleteFunc(reported, func(a clusterv1.MachineAddress) bool { return slices.Contains(given, a) })
	byAddress := func(a, b clusterv1.MachineAddress) int { return cmp.Compare(a.Address, b.Address) }
	slices.SortStableFunc(reported, byAddress)
	return given, reported
}

// appendAddress adds an address once, unless no other host can reach it.
func appendAddress(all []clusterv1.MachineAddress, ip string) []clusterv1.MachineAddress {
	parsed, err := netip.ParseAddr(ip)
	added := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip}
	if err != nil || parsed.IsLinkLocalUnicast() || parsed.IsLoopback() || slices.Contains(all, added) {
		return all
	}
	return append(all, added)
}

func uidOf(running *virtv1.VirtualMachineInstance) string {
	if running == nil {
		return ""
	}
	return string(running.UID)
}
