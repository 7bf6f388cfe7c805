// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namesIn lists a kind and names what there is.
func namesIn(ctx context.Context, c client.Client, list client.ObjectList, options ...client.ListOption) ([]string, error) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			names = append(names, fmt.Sprintf("%T %s", item, object.GetName()))
		}
		return err
	})
	return names, err
}

// dataSecrets names the Secrets with bootstrap data in the management cluster.
func (w *Workflow) dataSecrets(ctx context.Context) ([]string, error) {
	list := &corev1.SecretList{}
	if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: w.Cluster}); err != nil {
		return nil, err
	}
	var names []string
	for _, secret := range list.Items {
		if secret.Name != w.Cluster+"-kubeconfig" {
			names = append(names, "bootstrap data "+secret.Name)
		}
	}
	return names, nil
}

// tokens names the bootstrap tokens in the workload cluster, unless other Clusters share it.
func (w *Workflow) tokens(ctx context.Context) ([]string, error) {
	if w.SharesWorkload {
		return nil, nil
	}
	list := &corev1.SecretList{}
	if err := w.Stack.WorkloadClient.List(ctx, list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return nil, err
	}
	var names []string
	for _, secret := range list.Items {
		if secret.Type == corev1.SecretTypeBootstrapToken {
			names = append(names, "token "+secret.Name)
		}
	}
	return names, nil
}

// hosts names the instances that the simulated cloud keeps.
func (w *Workflow) hosts() ([]string, error) {
	entries, err := os.ReadDir(w.Stack.InstanceDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != "lock" { // the simulated cloud's own
			names = append(names, "host "+entry.Name())
		}
	}
	return names, nil
}

func isTrue(m *clusterv1.Machine, condition string) bool { return conditions.IsTrue(m, condition) }

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func count(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
