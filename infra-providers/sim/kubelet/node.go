// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
)

// register creates the Node, or updates the one of that name as a kubelet does after a restart.
func (k *Kubelet) register(ctx context.Context, c *connection) (*corev1.Node, error) {
	wanted, err := k.node(ctx, c)
	if err != nil {
		return nil, err
	}
	created, err := c.core.Nodes().Create(ctx, wanted, metav1.CreateOptions{})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	existing, err := c.core.Nodes().Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if existing.Spec.ProviderID != wanted.Spec.ProviderID {
		k.report.Log(fmt.Sprintf("kubelet: node %q has providerID %q, this host is %q", existing.Name, existing.Spec.ProviderID, wanted.Spec.ProviderID))
	}
	return existing, k.postStatus(ctx, c, wanted.Status)
}

func (k *Kubelet) node(ctx context.Context, c *connection) (*corev1.Node, error) {
	release := k.config.Version
	if release == "" {
		body, err := c.raw.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var info version.Info
		if err := json.Unmarshal(body, &info); err != nil {
			return nil, err
		}
		release = info.GitVersion
	}
	labels := map[string]string{
		corev1.LabelHostname:           k.config.NodeName,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         k.machine.Architecture,
		corev1.LabelTopologyZone:       k.machine.Zone,
		corev1.LabelInstanceTypeStable: k.machine.InstanceType,
	}
	maps.Copy(labels, k.config.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: k.config.ProviderID, Taints: k.config.Taints},
		Status:     k.status(release),
	}, nil
}

func (k *Kubelet) status(release string) corev1.NodeStatus {
	capacity := maps.Clone(k.machine.Capacity)
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(max(k.config.Kubelet.MaxPods, 0)), resource.DecimalSI)
	if k.config.Kubelet.MaxPods == 0 {
		capacity[corev1.ResourcePods] = resource.MustParse("110")
	}
	return corev1.NodeStatus{
		Capacity:    capacity,
		Allocatable: k.allocatable(capacity),
		Conditions:  conditions(metav1.Now()),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: k.config.NodeIP},
			{Type: corev1.NodeHostName, Address: k.config.NodeName},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               k.machine.SystemUUID,
			SystemUUID:              k.machine.SystemUUID,
			KernelVersion:           "6.8.0-simulated",
			OSImage:                 "Drover simulated host",
			ContainerRuntimeVersion: "simulated://1.0.0",
			KubeletVersion:          release,
			OperatingSystem:         "linux",
			Architecture:            k.machine.Architecture,
		},
	}
}

// allocatable is what reservations and the memory kept for eviction leave of the capacity.
func (k *Kubelet) allocatable(capacity corev1.ResourceList) corev1.ResourceList {
	left := maps.Clone(capacity)
	take := func(name, amount string) {
		quantity, err := resource.ParseQuantity(amount)
		total, known := left[corev1.ResourceName(name)]
		if err != nil || !known {
			return
		}
		total.Sub(quantity)
		left[corev1.ResourceName(name)] = total
	}
	for _, reserved := range []map[string]string{k.config.Kubelet.KubeReserved, k.config.Kubelet.SystemReserved} {
		for name, amount := range reserved {
			take(name, amount)
		}
	}
	threshold, ok := k.config.Kubelet.EvictionHard["memory.available"]
	if !ok {
		threshold = "100Mi"
	}
	take(string(corev1.ResourceMemory), threshold)
	return left
}

func conditions(now metav1.Time) []corev1.NodeCondition {
	set := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	for i := range set {
		set[i].LastHeartbeatTime, set[i].LastTransitionTime = now, now
	}
	return set
}

// postStatus writes the status; a condition that did not change keeps the time of its last transition.
func (k *Kubelet) postStatus(ctx context.Context, c *connection, status corev1.NodeStatus) error {
	known, err := c.core.Nodes().Get(ctx, k.config.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range status.Conditions {
		for _, was := range known.Status.Conditions {
			if is := &status.Conditions[i]; was.Type == is.Type && was.Status == is.Status {
				is.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = c.core.Nodes().PatchStatus(ctx, k.config.NodeName, patch)
	return err
}

// heartbeat renews the Lease and posts the status until ctx is done.
func (k *Kubelet) heartbeat(ctx context.Context, c *connection, node *corev1.Node) {
	lifetime := time.Duration(k.config.Kubelet.NodeLeaseDurationSeconds) * time.Second
	if lifetime <= 0 {
		lifetime = 40 * time.Second
	}
	every := k.config.Kubelet.NodeStatusReportFrequency.Duration
	if every <= 0 {
		every = 5 * time.Minute
	}
	var lease *coordinationv1.Lease
	renewed, posted := time.Now(), time.Now()
	for ctx.Err() == nil {
		next, err := k.renew(ctx, c, lease, node, lifetime)
		switch {
		case err != nil:
			lease = nil
			if ctx.Err() == nil {
				k.report.Log(fmt.Sprintf("kubelet: renewing lease: %v", err))
			}
		case time.Since(renewed) > lifetime || time.Since(posted) > every:
			// After a gap the control plane may have set the conditions to Unknown, which only a new status resets.
			if err := k.postStatus(ctx, c, k.status(node.Status.NodeInfo.KubeletVersion)); err == nil {
				posted = time.Now()
			}
			fallthrough
		default:
			lease, renewed = next, time.Now()
		}
		pause(ctx, lifetime/4+rand.N(lifetime/100))
	}
}

// renew updates the Lease, which is read or created first if it is nil.
func (k *Kubelet) renew(ctx context.Context, c *connection, lease *coordinationv1.Lease, node *corev1.Node, lifetime time.Duration) (*coordinationv1.Lease, error) {
	leases := c.leases.Leases(corev1.NamespaceNodeLease)
	now := ptr.To(metav1.NowMicro())
	if lease == nil {
		known, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return leases.Create(ctx, k.lease(node, lifetime, now), metav1.CreateOptions{})
		}
		if err != nil {
			return nil, err
		}
		lease = known
	}
	lease.Spec.RenewTime = now
	lease.Spec.HolderIdentity = ptr.To(node.Name)
	return leases.Update(ctx, lease, metav1.UpdateOptions{})
}

func (k *Kubelet) lease(node *corev1.Node, lifetime time.Duration, now *metav1.MicroTime) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			Namespace:       corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(node.Name),
			LeaseDurationSeconds: ptr.To(int32(lifetime / time.Second)),
			RenewTime:            now,
		},
	}
}
