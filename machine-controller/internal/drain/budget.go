// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/paging"
	"drover.io/runtime/drainplan"
	"drover.io/runtime/quantity"
)

// budgets reads the PodDisruptionBudgets of a Namespace once per pass, when the first Pod of it is about to be
// evicted, and predicts the API server's answer. So a blocked Pod costs no eviction request, and the
// message names the budget that blocks it and whether that can change.
type budgets struct {
	client      client.Reader
	pageSize    int64
	byNamespace map[string][]*budget
}

// budget is a PodDisruptionBudget with what this pass has already spent of it.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// of returns the budgets that select the Pod. Without the permission to list them it returns none: the API
// server still enforces the budgets, only its refusal cannot be explained.
func (b *budgets) of(ctx context.Context, pod *corev1.Pod) ([]*budget, error) {
	all, read := b.byNamespace[pod.Namespace]
	if !read {
		var err error
		if all, err = b.list(ctx, pod.Namespace); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing PodDisruptionBudgets in Namespace %q: %w", pod.Namespace, err)
		}
		b.byNamespace[pod.Namespace] = all
	}
	var matching []*budget
	for _, candidate := range all {
		if candidate.selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, candidate)
		}
	}
	return matching, nil
}

func (b *budgets) list(ctx context.Context, namespace string) ([]*budget, error) {
	var all []*budget
	kept := paging.Budget{}
	err := paging.Read(b.pageSize, func(size int64, token string) (string, error) {
		page := &policyv1.PodDisruptionBudgetList{}
		if err := b.client.List(ctx, page, client.InNamespace(namespace), client.Limit(size), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			selector, err := metav1.LabelSelectorAsSelector(page.Items[i].Spec.Selector)
			if err != nil {
				continue // the API server takes it to select nothing, too
			}
			if err := kept.Keep(&page.Items[i]); err != nil {
				return "", err
			}
			all = append(all, &budget{PodDisruptionBudget: &page.Items[i], selector: selector})
		}
		return page.Continue, nil
	})
	return all, err
}

// predict applies the rules by which the API server decides on an eviction. The zero Cause means that it evicts.
func predict(pod *corev1.Pod, matching []*budget) Cause {
	if len(matching) == 0 || drainplan.Finished(pod) || pod.Status.Phase == corev1.PodPending {
		return Cause{}
	}
	if len(matching) > 1 {
		return Cause{Kind: BudgetOverlap, Budgets: names(matching)}
	}
	b := matching[0]
	if !ready(pod) && b.allowsUnready() {
		return Cause{}
	}
	return b.block()
}

// block is the zero Cause if one more healthy Pod may go.
func (b *budget) block() Cause {
	cause := Cause{Budgets: names([]*budget{b})}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		cause.Kind = BudgetUnobserved
	case b.Status.DisruptionsAllowed > 0:
		return Cause{}
	case b.misconfiguration() != "":
		cause.Kind, cause.Detail = BudgetMisconfigured, b.misconfiguration()
	case b.syncFailed():
		cause.Kind = BudgetUncomputed
	default:
		cause.Kind = BudgetExhausted
	}
	return cause
}

// misconfiguration is why the budget can never allow a disruption, even if all its Pods are healthy.
func (b *budget) misconfiguration() string {
	if m := b.Spec.MaxUnavailable; m != nil && (m.String() == "0" || m.String() == "0%") {
		return "maxUnavailable is " + m.String()
	}
	if s := b.Status; !b.syncFailed() && s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods {
		return fmt.Sprintf("it requires %d of %s to be healthy", s.DesiredHealthy, quantity.Of(s.ExpectedPods, "Pod"))
	}
	return ""
}

// syncFailed reports whether the disruption controller cannot count the Pods, for example without a controller.
func (b *budget) syncFailed() bool {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason
}

// allowsUnready reports whether a Pod that is not ready may be evicted without being counted.
func (b *budget) allowsUnready() bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// countEviction counts an eviction in the budget, as the API server does.
func countEviction(pod *corev1.Pod, matching []*budget) {
	free := drainplan.Finished(pod) || pod.Status.Phase == corev1.PodPending
	if len(matching) != 1 || free || !ready(pod) && matching[0].allowsUnready() {
		return
	}
	matching[0].Status.DisruptionsAllowed--
}

// markExhausted records that the API server refused although the budget as it was read allowed a disruption.
func markExhausted(matching []*budget) Cause {
	for _, b := range matching {
		b.Status.DisruptionsAllowed = 0
	}
	return Cause{Kind: BudgetExhausted, Budgets: names(matching)}
}

func names(matching []*budget) []types.NamespacedName {
	found := make([]types.NamespacedName, 0, len(matching))
	for _, b := range matching {
		found = append(found, types.NamespacedName{Namespace: b.Namespace, Name: b.Name})
	}
	slices.SortFunc(found, compareKeys)
	return found
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
