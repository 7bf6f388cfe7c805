// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
)

// healthCheck is why a MachineHealthCheck does not have an unhealthy Machine replaced; nil if none is the cause.
func (f *Finder) healthCheck(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	switch found.Condition.Type {
	case clusterv1.MachineHealthCheckSucceededCondition:
		if deeper, err := f.notReplaced(ctx, m); deeper != nil || err != nil {
			return deeper, err
		}
	case clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition:
		if found.Condition.Reason == clusterv1.MachineNodeInspectionFailedReason { // its host has not joined yet
			return nil, nil //nolint:nilnil // no check is the cause
		}
		held, err := f.notReplaced(ctx, m)
		if err != nil {
			return nil, err
		}
		if held != nil { // its Node is the cause
			found.Help = strings.ReplaceAll(found.Help, reason.HealthCheckReplaces, held.Object.String()+" does not replace the Machine now")
		}
	default:
		return nil, nil //nolint:nilnil // it is about something else
	}
	return nil, f.notEvaluated(ctx, m, found)
}

// notEvaluated adds what of the Cluster keeps a MachineHealthCheck from the evaluation of an unhealthy Machine, and takes the promise
// of a replacement out of its finding. A request for a replacement is decided or made already.
func (f *Finder) notEvaluated(ctx context.Context, m *clusterv1.Machine, found *Finding) error {
	if _, requested := m.Annotations[clusterv1.RemediateMachineAnnotation]; requested || isRemediated(m) {
		return nil
	}
	awaited, err := f.besidesCluster(ctx, m, found, awaitedByHealthChecks, "No MachineHealthCheck evaluates Machines while")
	if awaited == nil || err != nil {
		return err
	}
	if found.Condition.Type == clusterv1.MachineHealthCheckSucceededCondition {
		found.Actor, found.Help, found.Command = awaited.Actor, awaited.Help, awaited.Command
		return nil
	}
	found.Help = strings.ReplaceAll(found.Help, reason.HealthCheckReplaces, "no MachineHealthCheck replaces the Machine until the Cluster is well")
	return nil
}

// answerHealthCheck is about a MachineHealthCheck for which its conditions have the finding, or nil: it evaluates nothing while its
// Cluster is not ready, and its replacements may wait.
func (f *Finder) answerHealthCheck(ctx context.Context, o *unstructured.Unstructured, found *Finding) (Answer, error) {
	ref := referenceOf(o)
	cluster, err := f.readCluster(ctx, ref)
	if err != nil {
		return Answer{}, err
	}
	if cluster != nil && cluster.DeletionTimestamp.IsZero() {
		if awaited := clusterItself(cluster, awaitedByHealthChecks); awaited != nil {
			awaited.Facts = append(awaited.Facts, "Until then, no MachineHealthCheck evaluates its Machines")
			return answer(ref, "", awaited), nil
		}
	}
	if found != nil && found.Condition.Reason == droverpolicyv1.BudgetUsedReason {
		deferred, err := f.deferred(ctx, o)
		return answer(ref, "", cmp.Or(deferred, found)), err
	}
	a := answer(ref, "", found)
	if found == nil && selectsNone(o) {
		a.Notes = append(a.Notes, "It selects no Machine, and so replaces none: compare its spec.selector with the labels of the Machines of its Cluster")
	}
	return a, nil
}

// selectsNone reports whether the selector of a MachineHealthCheck selects no Machine.
func selectsNone(o *unstructured.Unstructured) bool {
	expected, set, err := unstructured.NestedInt64(o.Object, "status", "expectedMachines")
	return set && err == nil && expected == 0
}

// notReplaced is why a MachineHealthCheck does not have a Machine replaced that it finds unhealthy: the condition of the check,
// which has the limit in numbers. It is nil while the check does, and without permission to read it.
func (f *Finder) notReplaced(ctx context.Context, m *clusterv1.Machine) (*Finding, error) {
	if c := condition(m, clusterv1.MachineHealthCheckSucceededCondition); c == nil || c.Status != metav1.ConditionFalse {
		return nil, nil //nolint:nilnil // it is healthy
	}
	if isRemediated(m) {
		return nil, nil //nolint:nilnil // its replacement is requested
	}
	var found *Finding
	err := object.Each(ctx, f.Reader, object.MachineHealthCheck, &clusterv1.MachineHealthCheckList{}, func(page *clusterv1.MachineHealthCheckList) error {
		for i := range page.Items {
			if check := &page.Items[i]; found == nil && selects(check, m) {
				found = disallowed(check)
			}
		}
		return nil
	}, client.InNamespace(m.Namespace))
	if err != nil && !object.IsForbidden(err) {
		return nil, err
	}
	if found != nil {
		found.Facts = append(found.Facts, fmt.Sprintf("It does not replace %s, which it finds unhealthy", ReferenceOf(m)))
	}
	return found, nil
}

func selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return err == nil && check.Spec.ClusterName == m.Spec.ClusterName && selector.Matches(labels.Set(m.Labels))
}

// disallowed is that a MachineHealthCheck has no Machine replaced now; nil if it has.
func disallowed(check *clusterv1.MachineHealthCheck) *Finding {
	ref := Reference{object.MachineHealthCheck.Kind, check.Namespace, check.Name, check.Spec.ClusterName}
	for _, kind := range []string{clusterv1.MachineHealthCheckRemediationAllowedCondition, droverpolicyv1.FailureDomainsHealthyCondition} {
		if c := meta.FindStatusCondition(check.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return of(ref, *c)
		}
	}
	return nil
}

// deferred is what the Machines of a MachineHealthCheck wait for whose replacement it has requested, and their owners do not
// begin, as with too many unhealthy ones or a freeze; nil if there are none. For the check, its budget is used.
func (f *Finder) deferred(ctx context.Context, o *unstructured.Unstructured) (*Finding, error) {
	check := &clusterv1.MachineHealthCheck{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, check); err != nil {
		return nil, fmt.Errorf("reading MachineHealthCheck %s: %w", o.GetName(), err)
	}
	w, err := f.worstOf(ctx, Reference{check.Kind, check.Namespace, check.Name, check.Spec.ClusterName}, func(m *clusterv1.Machine) bool {
		c := condition(m, clusterv1.MachineOwnerRemediatedCondition)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineSetMachineRemediationDeferredReason && selects(check, m)
	})
	if err != nil && !object.IsForbidden(err) {
		return nil, err
	}
	return f.worstMachine(ctx, w)
}
