// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
)

// reconciled are the kinds whose conditions the managers write.
var reconciled = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"),
	clusterv1.GroupVersion.WithKind("MachineHealthCheck"), droverpolicyv1.GroupVersion.WithKind("MachinePolicy"),
	bootstrapv1.GroupVersion.WithKind("BootstrapConfig"), infrav1.GroupVersion.WithKind("SimMachine"),
	infrav1.GroupVersion.WithKind("SimMachineTemplate"), infrav1.GroupVersion.WithKind("RestartRemediation"),
}

// undocumented describes a condition that a manager has written and that the table of reasons does not have with its status.
func (r *Runner) undocumented(ctx context.Context) (string, error) {
	for _, kind := range reconciled {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.Stack.ManagementClient.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return "", err
		}
		for i := range list.Items {
			if text := undocumentedOf(&list.Items[i]); text != "" {
				return text, nil
			}
		}
	}
	return "", nil
}

func undocumentedOf(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		kind, status, why := fmt.Sprint(fields["type"]), fmt.Sprint(fields["status"]), fmt.Sprint(fields["reason"])
		entry, found := reason.Find(object.GetKind(), kind, why)
		known := slices.ContainsFunc(entry.Statuses, func(s metav1.ConditionStatus) bool { return string(s) == status })
		if !found || !known {
			return fmt.Sprintf("api/reason has no entry for the condition %s %s %s of %s %s", kind, status, why, strings.ToLower(object.GetKind()), object.GetName())
		}
	}
	return ""
}
