// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/workflow"
)

// kubelets stand in for the kubelets of instances that the simulated clouds only pretend to boot: every
// instance that runs registers its Node once, and keeps it Ready.
type kubelets struct {
	told       *workflow.Workflow
	registered map[types.UID]bool
}

// run looks until ctx is over. What fails is tried again.
func (k *kubelets) run(ctx context.Context) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			machines, err := k.told.Machines(ctx)
			for i := range machines {
				if err == nil {
					_ = k.beat(ctx, &machines[i])
				}
			}
		}
	}
}

// beat registers the Node of a machine, or renews its Ready condition.
func (k *kubelets) beat(ctx context.Context, m *clusterv1.Machine) error {
	work := k.told.Stack.WorkloadClient
	provisioned := ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
	if !provisioned || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	if !k.registered[m.UID] {
		if err := work.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		k.registered[m.UID] = true
	}
	if err := work.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return err
	}
	now := metav1.Now()
	if len(node.Status.Conditions) > 0 && now.Sub(node.Status.Conditions[0].LastHeartbeatTime.Time) < 5*time.Second {
		return nil
	}
	before := node.DeepCopy()
	node.Status.NodeInfo.KubeletVersion = workflow.Kubernetes
	node.Status.Conditions = nil
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Kubelet", LastHeartbeatTime: now, LastTransitionTime: metav1.NewTime(m.CreationTimestamp.Time),
		})
	}
	return work.Status().Patch(ctx, node, client.MergeFrom(before))
}
