// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Unreachable reports whether the kubelet of a Node does not report.
func Unreachable(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// Observe reads what Classify needs besides the Pods of a Node and sets it: each of their DaemonSets is read once, and the
// Namespaces if a rule selects by their labels. Rules must be set before.
func (v *Input) Observe(ctx context.Context, c client.Reader, pods []*corev1.Pod) error {
	v.NamespaceLabels, v.Orphaned = map[string]labels.Set{}, map[types.UID]bool{}
	exists := map[client.ObjectKey]bool{}
	for _, pod := range pods {
		if err := v.observeDaemonSet(ctx, c, pod, exists); err != nil {
			return err
		}
		if err := v.observeNamespace(ctx, c, pod); err != nil {
			return err
		}
	}
	return nil
}

// observeDaemonSet records a Pod whose DaemonSet does not exist; exists caches the answers. A DaemonSet of another API group
// than the built-in one is taken to exist: not every kubeconfig may read it, and a wrong answer would have its
// Pods evicted for ever, while a Pod that stays does not block the drain.
func (v *Input) observeDaemonSet(ctx context.Context, c client.Reader, pod *corev1.Pod, exists map[client.ObjectKey]bool) error {
	ref := daemonSetOf(pod)
	if ref == nil || Finished(pod) || !builtIn(ref) {
		return nil
	}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: ref.Name}
	if _, read := exists[key]; !read {
		set := &metav1.PartialObjectMetadata{}
		set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(ref.Kind))
		err := c.Get(ctx, key, set)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("getting DaemonSet %q of Pod %q in Namespace %q: %w", ref.Name, pod.Name, pod.Namespace, err)
		}
		exists[key] = err == nil
	}
	if !exists[key] {
		v.Orphaned[pod.UID] = true
	}
	return nil
}

// builtIn reports whether an owner is of the API group of Kubernetes' own workloads, in any version.
func builtIn(ref *metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == appsv1.GroupName
}

func (v *Input) observeNamespace(ctx context.Context, c client.Reader, pod *corev1.Pod) error {
	if _, read := v.NamespaceLabels[pod.Namespace]; read || !v.Rules.selectNamespaces() {
		return nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Get(ctx, client.ObjectKey{Name: pod.Namespace}, ns)
	switch {
	case apierrors.IsNotFound(err):
		ns.Labels = v.namespaceLabels(pod.Namespace)
	case err != nil:
		return fmt.Errorf("getting Namespace %q: %w", pod.Namespace, err)
	}
	v.NamespaceLabels[pod.Namespace] = ns.Labels
	return nil
}
