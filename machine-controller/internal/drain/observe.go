// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/paging"
	"drover.io/machine-controller/internal/volume"
)

// observe reads all that Classify needs: the Pods of the Node, each of their DaemonSets once, and the Namespaces
// if a rule selects by them.
func (d *Drainer) observe(ctx context.Context, req Request) ([]*corev1.Pod, Input, error) {
	view := Input{
		Now: req.Now, Unreachable: volume.NodeUnreachable(req.Node), ForceDeadline: req.ForceDeadline,
		NamespaceLabels: map[string]labels.Set{}, Orphaned: map[types.UID]bool{},
	}
	var err error
	if view.Rules, err = RulesFor(req.Subject, req.Rules); err != nil {
		return nil, view, err
	}
	pods, err := d.pods(ctx, req.Client, req.Node.Name)
	if err != nil {
		return nil, view, err
	}
	exists := map[client.ObjectKey]bool{}
	for _, pod := range pods {
		if err := orphaned(ctx, req.Client, pod, exists, &view); err != nil {
			return nil, view, err
		}
		if err := namespace(ctx, req.Client, pod, &view); err != nil {
			return nil, view, err
		}
	}
	return pods, view, nil
}

// pods lists by the index that the API server keeps for kubelets.
func (d *Drainer) pods(ctx context.Context, c client.Reader, node string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	budget := paging.Budget{}
	err := paging.Read(d.pageSize(), func(size int64, token string) (string, error) {
		page := &corev1.PodList{}
		if err := c.List(ctx, page, client.MatchingFields{"spec.nodeName": node}, client.Limit(size), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			if err := budget.Keep(&page.Items[i]); err != nil {
				return "", err
			}
			pods = append(pods, &page.Items[i])
		}
		return page.Continue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Pods of Node %q: %w", node, err)
	}
	return pods, nil
}

// orphaned records a Pod whose DaemonSet does not exist; exists caches the answers. A DaemonSet of another API group
// than the built-in one is taken to exist: not every kubeconfig may read it, and a wrong answer would have its
// Pods evicted for ever, while a Pod that stays does not block the drain.
func orphaned(ctx context.Context, c client.Reader, pod *corev1.Pod, exists map[client.ObjectKey]bool, v *Input) error {
	ref := daemonSetOf(pod)
	if ref == nil || finished(pod) || !builtIn(ref) {
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

func namespace(ctx context.Context, c client.Reader, pod *corev1.Pod, v *Input) error {
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
