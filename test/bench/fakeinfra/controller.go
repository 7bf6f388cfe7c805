// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakeinfra is the cheapest infrastructure provider that keeps the InfraMachine contract: a
// machine that has an owner gets a Ready Node in the workload cluster at once, then its providerID,
// then word that it is provisioned. It runs inside the benchmark under its own user, so that neither
// its work nor its requests count for the core that is measured.
package fakeinfra

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Kinds are the CRDs and the permission that the stand-in needs.
//
//go:embed kinds.yaml
var Kinds []byte

// ClusterLabel on a Node names its Cluster.
const ClusterLabel = "bench.drover.io/cluster"

const finalizer = "bench.drover.io/machine"

// MachineKind is the kind of the machines.
var MachineKind = schema.GroupVersionKind{Group: "bench.drover.io", Version: "v1", Kind: "BenchMachine"}

// Cloud provisions machines.
type Cloud struct {
	// Manage and Work reach the management and the workload cluster.
	Manage, Work client.Client
}

// Register adds the cloud to a manager.
func (c *Cloud) Register(mgr ctrl.Manager) error {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(MachineKind)
	return ctrl.NewControllerManagedBy(mgr).Named("cloud").For(machine).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: ptr.To(true)}).
		Complete(c)
}

// Reconcile provisions one machine, or removes its finalizer.
func (c *Cloud) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(MachineKind)
	if err := c.Manage.Get(ctx, request.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	provisioned, _, _ := unstructured.NestedBool(machine.Object, "status", "initialization", "provisioned")
	switch {
	case machine.GetDeletionTimestamp() != nil:
		return ctrl.Result{}, c.patch(ctx, machine, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	case provisioned || metav1.GetControllerOf(machine) == nil:
		return ctrl.Result{}, nil
	}
	id := "bench:///" + machine.GetName()
	if err := c.Work.Create(ctx, node(machine, id)); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, fmt.Errorf("creating Node: %w", err)
	}
	if err := c.patch(ctx, machine, map[string]any{
		"metadata": map[string]any{"finalizers": []any{finalizer}},
		"spec":     map[string]any{"providerID": id},
	}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, c.patch(ctx, machine, map[string]any{"status": map[string]any{
		"initialization": map[string]any{"provisioned": true},
		"addresses":      []any{map[string]any{"type": "InternalIP", "address": "192.0.2.1"}},
	}})
}

func (c *Cloud) patch(ctx context.Context, machine *unstructured.Unstructured, change map[string]any) error {
	document, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if _, ofStatus := change["status"]; ofStatus {
		return client.IgnoreNotFound(c.Manage.Status().Patch(ctx, machine, client.RawPatch(types.MergePatchType, document)))
	}
	return client.IgnoreNotFound(c.Manage.Patch(ctx, machine, client.RawPatch(types.MergePatchType, document)))
}

func node(machine *unstructured.Unstructured, id string) *corev1.Node {
	now := metav1.NewTime(time.Now())
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   machine.GetName(),
			Labels: map[string]string{ClusterLabel: machine.GetLabels()[clusterv1.ClusterNameLabel], corev1.LabelHostname: machine.GetName()},
		},
		Spec: corev1.NodeSpec{ProviderID: id},
		Status: corev1.NodeStatus{
			Capacity:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: machine.GetName()}},
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "none", ContainerRuntimeVersion: "containerd://2.1.0", KernelVersion: "6.12", Architecture: "amd64", OperatingSystem: "linux", MachineID: machine.GetName(), SystemUUID: machine.GetName(), BootID: machine.GetName()},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now},
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", LastHeartbeatTime: now, LastTransitionTime: now},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", LastHeartbeatTime: now, LastTransitionTime: now},
				{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", LastHeartbeatTime: now, LastTransitionTime: now},
			},
		},
	}
}
