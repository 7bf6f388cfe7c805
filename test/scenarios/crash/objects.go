// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/workflow"
)

// kinds are what a census looks at in the management cluster.
var kinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"),
	bootstrapv1.GroupVersion.WithKind("BootstrapConfig"), infrav1.GroupVersion.WithKind("SimMachine"),
}

// describeObjects describes everything there is by what does not depend on names and times, one line
// for each object, sorted.
func describeObjects(ctx context.Context, s *workflow.Workflow) ([]string, error) {
	var lines []string
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := s.Stack.ManagementClient.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			lines = append(lines, describe(&list.Items[i]))
		}
	}
	nodes := &corev1.NodeList{}
	if err := s.Stack.WorkloadClient.List(ctx, nodes); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		if node.Annotations[clusterv1.ClusterNamespaceAnnotation] == s.Namespace {
			lines = append(lines, fmt.Sprintf("Node: unschedulable %t, %d taints, owner %s", node.Spec.Unschedulable, len(node.Spec.Taints), node.Annotations[clusterv1.OwnerKindAnnotation]))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

func describe(object *unstructured.Unstructured) string {
	var facts []string
	for _, owner := range object.GetOwnerReferences() {
		facts = append(facts, fmt.Sprintf("owner %s %t", owner.Kind, metav1.IsControlledBy(object, &metav1.ObjectMeta{UID: owner.UID})))
	}
	facts = append(facts, "finalizers "+strings.Join(object.GetFinalizers(), " "), fmt.Sprintf("deleting %t", object.GetDeletionTimestamp() != nil))
	if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase != "" {
		facts = append(facts, "phase "+phase)
	}
	for _, count := range []string{"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"} {
		if n, found, _ := unstructured.NestedInt64(object.Object, "status", count); found {
			facts = append(facts, fmt.Sprintf("%s %d", count, n))
		}
	}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range list {
		if condition, ok := each.(map[string]any); ok {
			facts = append(facts, fmt.Sprintf("%v %v", condition["type"], condition["status"]))
		}
	}
	return object.GetKind() + ": " + strings.Join(facts, ", ")
}
