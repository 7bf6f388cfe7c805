// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cordon makes the Node unschedulable, with one write if it is not yet. The node may come from a cache and is
// not changed. A Node that was replaced under the same name is an error, one that is gone needs nothing.
func Cordon(ctx context.Context, c client.Client, node *corev1.Node) error {
	if node.Spec.Unschedulable {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"spec":     map[string]any{"unschedulable": true},
	})
	if err != nil {
		return fmt.Errorf("encoding the cordon of Node %q: %w", node.Name, err)
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := c.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("cordoning Node %q: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("cordoned Node", "Node", klog.KObj(node))
	return nil
}
