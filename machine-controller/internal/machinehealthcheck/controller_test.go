// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
)

// conditionsOf are an object's conditions, as "Type=Status Reason".
func conditionsOf(object conditions.Getter, kinds ...string) []string {
	var all []string
	for _, kind := range kinds {
		condition := conditions.Get(object, kind)
		if condition == nil {
			all = append(all, kind+" absent")
			continue
		}
		all = append(all, fmt.Sprintf("%s=%s %s", kind, condition.Status, condition.Reason))
	}
	return all
}

// expectConditions waits until the conditions of a Machine are as expected.
func (w *environment) expectConditions(machine string, want ...string) {
	w.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: machine}}
	w.Eventually(func() string {
		if err := w.Get(w.T.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err.Error()
		}
		return cmp.Diff(want, conditionsOf(m, clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition))
	}).Should(gomega.BeEmpty(), "the conditions of Machine %s", machine)
}

// expectCheck waits until a check's conditions read like that.
func (w *environment) expectCheck(check *clusterv1.MachineHealthCheck, want ...string) {
	w.Helper()
	w.Eventually(func() string {
		if err := w.Get(w.T.Context(), client.ObjectKeyFromObject(check), check); err != nil {
			return err.Error()
		}
		return cmp.Diff(want, conditionsOf(check, clusterv1.MachineHealthCheckRemediationAllowedCondition, FailureDomainsHealthyCondition, TargetsExclusiveCondition))
	}).Should(gomega.BeEmpty(), "the conditions of MachineHealthCheck %s", check.Name)
}

const (
	good           = "HealthCheckSucceeded=True HealthCheckSucceeded"
	badNode        = "HealthCheckSucceeded=False UnhealthyNode"
	nodeGone       = "HealthCheckSucceeded=False NodeDeleted"
	markedForOwner = "OwnerRemediated=False WaitingForRemediation"
	notMarked      = "OwnerRemediated absent"
	alone          = "ExternallyRemediated absent"

	allowed    = "RemediationAllowed=True RemediationAllowed"
	budgetUsed = "RemediationAllowed=False ReplacementBudgetUsed"
	zonesFine  = "FailureDomainsHealthy=True FailureDomainsHealthy"
	exclusive  = "TargetsExclusive=True TargetsExclusive"
)

func TestMarksWithinTheBudget(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	for _, name := range []string{"m-0", "m-1", "m-2"} {
		w.machine(name, "pool")
	}
	skipped := w.machine("m-3", "pool")
	w.change(skipped, func() { skipped.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""} })
	check := w.check("check")
	for _, name := range []string{"m-0", "m-1", "m-2"} {
		w.expectConditions(name, good, notMarked, alone)
	}
	w.expectCheck(check, allowed, zonesFine, exclusive)
	status := check.Status
	got := []any{*status.ExpectedMachines, *status.CurrentHealthy, *status.RemediationsAllowed, strings.Join(status.Targets, " "), status.ObservedGeneration}
	if diff := cmp.Diff([]any{int32(3), int32(3), int32(1), "m-0 m-1 m-2", int64(1)}, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	w.Expect(w.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node("m-0")}})).To(gomega.Succeed())
	w.expectConditions("m-0", nodeGone, markedForOwner, alone)
	w.ready("m-1", corev1.ConditionFalse)
	w.expectConditions("m-1", badNode, notMarked, alone)
	w.expectCheck(check, budgetUsed, zonesFine, exclusive)
	w.expectConditions("m-2", good, notMarked, alone)
	held := &clusterv1.Machine{}
	w.Expect(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "m-1"}, held)).To(gomega.Succeed())
	if message := conditions.GetMessage(held, clusterv1.MachineHealthCheckSucceededCondition); !strings.Contains(message, string(health.BudgetExhausted)) {
		t.Errorf("the Machine does not report what blocks its replacement: %q", message)
	}

	w.ready("m-1", corev1.ConditionTrue)
	w.expectConditions("m-1", good, notMarked, alone)
	w.expectCheck(check, allowed, zonesFine, exclusive)
}

func TestRemovesItsMark(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool")
	w.check("check")
	w.expectConditions("m-0", good, notMarked, alone)
	w.ready("m-0", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, markedForOwner, alone)
	w.ready("m-0", corev1.ConditionTrue)
	w.expectConditions("m-0", good, notMarked, alone)
}

// TestReplaces goes all the way: the MachineSet deletes what the check has marked, one at a
// time, and records which Machine the new one replaces.
func TestReplaces(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	set := w.machineSet(3)
	machines := w.machines(3)
	for i := range machines {
		w.join(&machines[i])
	}
	check := w.check("check")
	for _, m := range machines {
		w.expectConditions(m.Name, good, notMarked, alone)
	}

	w.ready(machines[0].Name, corev1.ConditionFalse)
	other := &clusterv1.Machine{}
	w.Eventually(func(g gomega.Gomega) {
		g.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(&machines[0]), other)).To(gomega.Succeed())
		g.Expect(other.DeletionTimestamp).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
	if reason := conditions.GetReason(other, clusterv1.MachineOwnerRemediatedCondition); reason != clusterv1.MachineSetMachineRemediationMachineDeletingReason {
		t.Errorf("reason of OwnerRemediated: %q", reason)
	}
	w.ready(machines[1].Name, corev1.ConditionFalse)
	w.expectConditions(machines[1].Name, badNode, notMarked, alone)
	w.expectCheck(check, budgetUsed, zonesFine, exclusive)

	w.change(other, func() { other.Finalizers = nil })
	var successor clusterv1.Machine
	w.Eventually(func(g gomega.Gomega) {
		list := &clusterv1.MachineList{}
		g.Expect(w.List(t.Context(), list, client.InNamespace(w.namespace))).To(gomega.Succeed())
		g.Expect(list.Items).To(gomega.HaveLen(3))
		for _, m := range list.Items {
			if m.Name != machines[1].Name && m.Name != machines[2].Name {
				successor = m
			}
		}
		replacement, _ := health.ReplacementOf(&successor)
		g.Expect(replacement).To(gomega.Equal(health.Replacement{Machine: other.Name, Attempt: 1}))
		g.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		g.Expect(health.InFlightReplacements(set)).To(gomega.BeEmpty())
	}).Should(gomega.Succeed())
	w.join(&successor)
	w.expectConditions(successor.Name, good, notMarked, alone)
	w.expectConditions(machines[1].Name, badNode, notMarked, alone)
	w.expectCheck(check, budgetUsed, zonesFine, exclusive) // the successor has yet to prove itself
}

// machineSet creates the MachineSet "pool", whose Machines the check selects.
func (w *environment) machineSet(replicas int32) *clusterv1.MachineSet {
	w.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.drover.io/v1alpha1", "kind": "SimMachineTemplate",
		"metadata": map[string]any{"namespace": w.namespace, "name": "t"},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{}}},
	}}
	w.create(template)
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pool"}}
	set.Spec.ClusterName, set.Spec.Replicas = "c", &replicas
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	set.Spec.Template.Labels = map[string]string{"pool": "a"}
	set.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("s")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachineTemplate", Name: "t"},
	}
	w.create(set)
	return set
}

// machines waits for as many Machines as that.
func (w *environment) machines(n int) []clusterv1.Machine {
	w.Helper()
	list := &clusterv1.MachineList{}
	w.Eventually(func() (int, error) {
		err := w.List(w.T.Context(), list, client.InNamespace(w.namespace))
		return len(list.Items), err
	}).Should(gomega.Equal(n))
	return list.Items
}

func TestCreatesExternalRequests(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool-a")
	w.machine("m-1", "pool-b")
	check := w.check("check", func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "mend.test/v1", Kind: "MendRemediationTemplate", Name: "reboot"}
	})
	w.ready("m-0", corev1.ConditionFalse)
	w.ready("m-1", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, notMarked, "ExternallyRemediated=False RemediationTemplateNotFound")
	w.expectConditions("m-1", badNode, notMarked, "ExternallyRemediated=False RemediationTemplateNotFound")

	w.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mend.test/v1", "kind": "MendRemediationTemplate",
		"metadata": map[string]any{"namespace": w.namespace, "name": "reboot"},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}},
	}})
	w.change(check, func() { check.Annotations = map[string]string{"look": "again"} })
	const waiting = "ExternallyRemediated=False WaitingForRemediation"
	w.expectConditions("m-0", badNode, notMarked, waiting)
	w.expectConditions("m-1", badNode, notMarked, waiting)
	m, request := &clusterv1.Machine{}, mend(w.namespace, "m-0")
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(request), request)).To(gomega.Succeed())
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(request), m)).To(gomega.Succeed())
	strategy, _, _ := unstructured.NestedString(request.Object, "spec", "strategy")
	got := []any{request.GetOwnerReferences(), request.GetLabels()[clusterv1.ClusterNameLabel], strategy}
	want := []any{[]metav1.OwnerReference{*metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))}, "c", "reboot"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}

	w.ready("m-0", corev1.ConditionTrue)
	w.expectConditions("m-0", good, notMarked, alone)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
		t.Errorf("the request of a healthy Machine: %v", err)
	}
	w.Expect(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "m-1"}, mend(w.namespace, "m-1"))).To(gomega.Succeed())
}

func mend(namespace, name string) *unstructured.Unstructured {
	request := &unstructured.Unstructured{}
	request.SetAPIVersion("mend.test/v1")
	request.SetKind("MendRemediation")
	request.SetNamespace(namespace)
	request.SetName(name)
	return request
}

func TestTheOldestCheckRemediatesAMachine(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool")
	olderCheck := w.check("b-older")
	w.expectCheck(olderCheck, allowed, zonesFine, exclusive)
	younger := newCheck(w.namespace, "z-younger")
	w.create(younger)
	w.expectCheck(younger, allowed, zonesFine, "TargetsExclusive=False TargetsOverlap")
	if len(younger.Status.Targets) != 0 {
		t.Errorf("targets of the younger check: %v", younger.Status.Targets)
	}
	w.Expect(w.Delete(t.Context(), olderCheck)).To(gomega.Succeed())
	w.expectCheck(younger, allowed, zonesFine, exclusive)
	if diff := cmp.Diff([]string{"m-0"}, younger.Status.Targets); diff != "" {
		t.Errorf("targets of the younger check (-want +got):\n%s", diff)
	}
}

func TestStopsWhenTooManyAreUnhealthy(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool-a")
	w.machine("m-1", "pool-b")
	check := w.check("check", func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString("50%"))
	})
	w.ready("m-0", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, markedForOwner, alone)
	w.ready("m-1", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, notMarked, alone)
	w.expectConditions("m-1", badNode, notMarked, alone)
	w.expectCheck(check, "RemediationAllowed=False TooManyUnhealthy", zonesFine, exclusive)
}

func TestStopsInAZoneThatIsDown(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	for _, name := range []string{"m-0", "m-1"} {
		m := w.machine(name, "pool-"+name)
		w.changeStatus(m, func() { m.Status.FailureDomain = "a" })
		w.ready(name, corev1.ConditionFalse)
	}
	check := w.check("check")
	w.expectConditions("m-0", badNode, notMarked, alone)
	w.expectConditions("m-1", badNode, notMarked, alone)
	w.expectCheck(check, allowed, "FailureDomainsHealthy=False FailureDomainDown", exclusive)

	ordered := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m-1"}}
	w.change(ordered, func() { ordered.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""} })
	w.expectConditions("m-1", "HealthCheckSucceeded=False HasRemediateAnnotation", markedForOwner, alone)
	w.expectConditions("m-0", badNode, notMarked, alone)
}

func TestEvaluatesNothingWithoutAConnection(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, false)
	m := w.machine("m-0", "pool")
	w.change(m, func() { m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""} })
	check := w.check("check")
	w.expectCheck(check, "RemediationAllowed=False NotConnected", "FailureDomainsHealthy absent", exclusive)
	w.expectConditions("m-0", "HealthCheckSucceeded absent", notMarked, alone)
}

func TestPausedCheckDoesNothing(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool")
	w.ready("m-0", corev1.ConditionFalse)
	check := w.check("check", func(c *clusterv1.MachineHealthCheck) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	w.Eventually(func(g gomega.Gomega) {
		g.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(gomega.Succeed())
		g.Expect(conditions.IsTrue(check, clusterv1.PausedCondition)).To(gomega.BeTrue())
	}).Should(gomega.Succeed())
	w.expectConditions("m-0", "HealthCheckSucceeded absent", notMarked, alone)
	w.change(check, func() { check.Annotations = nil })
	w.expectConditions("m-0", badNode, markedForOwner, alone)
}
