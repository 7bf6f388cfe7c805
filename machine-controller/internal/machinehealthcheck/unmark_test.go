// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/machinehealthcheck/external"
	"drover.io/machine-controller/internal/machinehealthcheck/unmark"
	"drover.io/machine-controller/internal/testenv"
)

// expectNoConditions waits until the Machine has no condition of a health check.
func (w *environment) expectNoConditions(name string) {
	w.Helper()
	w.Eventually(func(g gomega.Gomega) {
		m := &clusterv1.Machine{}
		g.Expect(w.Get(w.T.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, m)).To(gomega.Succeed())
		for _, kind := range []string{
			clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition,
		} {
			g.Expect(conditions.Has(m, kind)).To(gomega.BeFalse(), kind)
		}
	}).Should(gomega.Succeed())
}

func TestMarksAreRemoved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*environment, *clusterv1.Machine, *clusterv1.MachineHealthCheck){
		"from a Machine that is exempted": func(w *environment, m *clusterv1.Machine, _ *clusterv1.MachineHealthCheck) {
			w.change(m, func() { m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""} })
		},
		"from a Machine that is paused": func(w *environment, m *clusterv1.Machine, _ *clusterv1.MachineHealthCheck) {
			w.change(m, func() { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
		},
		"from a Machine that is not selected any more": func(w *environment, m *clusterv1.Machine, _ *clusterv1.MachineHealthCheck) {
			w.change(m, func() { m.Labels["pool"] = "b" })
		},
		"by a check that selects others": func(w *environment, _ *clusterv1.Machine, check *clusterv1.MachineHealthCheck) {
			w.change(check, func() { check.Spec.Selector.MatchLabels["pool"] = "b" })
		},
		"with the check": func(w *environment, _ *clusterv1.Machine, check *clusterv1.MachineHealthCheck) {
			w.Expect(w.Delete(w.T.Context(), check)).To(gomega.Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, true)
			m := w.machine("m-0", "pool-a")
			check := w.check("check")
			w.ready("m-0", corev1.ConditionFalse)
			w.expectConditions("m-0", badNode, markedForOwner, alone)
			change(w, m, check)
			w.expectNoConditions("m-0")
		})
	}
}

// TestMarkOfACheckThatWasDeletedDuringAPauseHasNoEffect ends the replacements during an incident: the Cluster is paused, the
// check deleted, and the Cluster resumed when its Machines are healthy again.
func TestMarkOfACheckThatWasDeletedDuringAPauseHasNoEffect(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	set := w.machineSet(3)
	machines := w.machines(3)
	for i := range machines {
		w.join(&machines[i])
	}
	w.change(set, func() {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, clusterv1.DisableMachineCreateAnnotation, "true") // the replacement waits
	})
	check := w.check("check")
	w.ready(machines[0].Name, corev1.ConditionFalse)
	w.expectConditions(machines[0].Name, badNode, "OwnerRemediated=False RemediationDeferred", alone)

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c"}}
	w.change(cluster, func() { cluster.Spec.Paused = new(true) })
	w.Eventually(func() bool {
		w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		return conditions.IsTrue(set, clusterv1.PausedCondition)
	}).Should(gomega.BeTrue())
	w.Expect(w.Delete(t.Context(), check)).To(gomega.Succeed())
	w.ready(machines[0].Name, corev1.ConditionTrue)
	w.change(set, func() { delete(set.Annotations, clusterv1.DisableMachineCreateAnnotation) })
	time.Sleep(time.Second) // the deletion is handled during the pause
	w.change(cluster, func() { cluster.Spec.Paused = new(false) })
	w.expectNoConditions(machines[0].Name)
	if w.fresh(&machines[0]); machines[0].DeletionTimestamp != nil {
		t.Error("a healthy Machine, which no check selects, is being replaced")
	}
}

func TestMarksOfAnotherCheckAreKept(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	m := w.machine("m-0", "pool-a")
	check := w.check("check")
	w.check("younger")
	w.ready("m-0", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, markedForOwner, alone)
	w.Expect((&unmark.Reconciler{Client: w.Client, Selectors: &health.Selectors{}}).Reconcile(t.Context(), w.fresh(m))).To(gomega.BeZero())
	w.Expect(w.Delete(t.Context(), check)).To(gomega.Succeed())
	w.expectConditions("m-0", badNode, markedForOwner, alone)
}

func (w *environment) fresh(m *clusterv1.Machine) *clusterv1.Machine {
	w.Helper()
	w.Expect(w.Get(w.T.Context(), client.ObjectKeyFromObject(m), m)).To(gomega.Succeed())
	return m
}

func (w *environment) external(kind string) *clusterv1.MachineHealthCheck {
	w.Helper()
	return w.check("check", func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "mend.test/v1", Kind: kind, Name: "reboot"}
	})
}

func (w *environment) template() {
	w.Helper()
	w.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mend.test/v1", "kind": "MendRemediationTemplate",
		"metadata": map[string]any{"namespace": w.namespace, "name": "reboot"},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{}}},
	}})
}

func TestTheRequestForAnExemptMachineIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	m := w.machine("m-0", "pool-a")
	w.template()
	w.external("MendRemediationTemplate")
	w.ready("m-0", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, notMarked, "ExternallyRemediated=False WaitingForRemediation")
	request := mend(w.namespace, "m-0")
	w.Eventually(func() error { return w.Get(t.Context(), client.ObjectKeyFromObject(request), request) }).Should(gomega.Succeed())
	w.change(m, func() { m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""} })
	w.expectNoConditions("m-0")
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
		t.Errorf("the request of an exempt Machine: %v", err)
	}
}

func TestAForeignRequestIsKept(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, true)
	w.machine("m-0", "pool-a")
	other := w.machine("m-1", "pool-b")
	w.template()
	foreign := mend(w.namespace, "m-0")
	foreign.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(other, clusterv1.GroupVersion.WithKind("Machine"))})
	w.create(foreign)
	w.external("MendRemediationTemplate")
	w.ready("m-0", corev1.ConditionFalse)
	w.expectConditions("m-0", badNode, notMarked, "ExternallyRemediated=False RemediationRequestCreationFailed")
	w.ready("m-0", corev1.ConditionTrue)
	w.expectConditions("m-0", good, notMarked, alone)
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(gomega.Succeed())
	w.Expect(foreign.GetDeletionTimestamp()).To(gomega.BeNil())
}

// An API server with older CRDs may hold a check that names any template.
func TestATemplateOfOtherThingsIsNotUsed(t *testing.T) {
	t.Parallel()
	c, namespace := management.Client(t), management.Namespace(t)
	m := testenv.Machine(namespace, "m")
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "x"})
	for name, ref := range map[string]clusterv1.MachineHealthCheckRemediationTemplateReference{
		"Machines":            {APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineTemplate", Name: "t"},
		"Machines themselves": {APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "t"},
		"infrastructure":      {APIVersion: "infrastructure.drover.io/v1alpha1", Kind: "SimMachineTemplate", Name: "t"},
		"Kubernetes":          {APIVersion: "v1", Kind: "PodTemplate", Name: "t"},
	} {
		t.Run(name, func(t *testing.T) {
			check := newCheck(namespace, "check")
			check.Spec.Remediation.TemplateRef = ref
			requests := external.NewRequests(c, c, check)
			if err := requests.Ensure(t.Context(), m); !external.NeedsCorrection(err) {
				t.Errorf("the error is %v", err)
			}
			if err := requests.Delete(t.Context(), m); err != nil {
				t.Error(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || !m.DeletionTimestamp.IsZero() {
				t.Fatalf("the Machine is deleted: %v", err)
			}
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "x"})
		})
	}
}

// TestACheckThatIsBeingDeletedKeepsNoMarks has a check that a finalizer keeps, and a Machine that it selects.
func TestACheckThatIsBeingDeletedKeepsNoMarks(t *testing.T) {
	t.Parallel()
	c, namespace := indextest.NewClient(t, management.Client(t)), management.Namespace(t)
	cluster, check, m := testenv.Cluster(namespace), newCheck(namespace, "check"), testenv.Machine(namespace, "m")
	check.Finalizers, m.Labels = []string{"drover.test/held"}, check.Spec.Selector.MatchLabels
	for _, object := range []client.Object{cluster, check, m} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	m.Status.Phase = string(clusterv1.MachinePhaseRunning)
	setUnhealthy(m, health.Finding{Reason: "UnhealthyNode", Message: "bad"}, "")
	if err := c.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	u := &unmark.Reconciler{Client: c, Writes: &expectation.Writes{Clock: clock.RealClock{}}, Selectors: &health.Selectors{}}
	for _, deleted := range []bool{false, true} {
		if deleted {
			if err := c.Delete(t.Context(), check); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := u.Reconcile(t.Context(), m.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}
		if health.HasConditions(m) == deleted {
			t.Errorf("the Machine has conditions of a check %t after the deletion %t", health.HasConditions(m), deleted)
		}
	}
}

// TestChecksOfOtherManagersKeepNoMarks has a Machine that one check selects, which this manager may not reconcile.
func TestChecksOfOtherManagersKeepNoMarks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		labels map[string]string
		kept   bool
	}{
		"it keeps the marks of a check of this manager":      {map[string]string{clusterv1.WatchLabel: "own"}, true},
		"it removes the marks of a check of another manager": {map[string]string{clusterv1.WatchLabel: "other"}, false},
		"it removes the marks of a check of no manager":      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, namespace := indextest.NewClient(t, management.Client(t)), management.Namespace(t)
			cluster, check, m := testenv.Cluster(namespace), newCheck(namespace, "check"), testenv.Machine(namespace, "m")
			check.Labels, m.Labels = test.labels, check.Spec.Selector.MatchLabels
			for _, object := range []client.Object{cluster, check, m} {
				if err := c.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			m.Status.Phase = string(clusterv1.MachinePhaseRunning)
			setUnhealthy(m, health.Finding{Reason: "UnhealthyNode", Message: "bad"}, "")
			if err := c.Status().Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			u := &unmark.Reconciler{Client: c, Writes: &expectation.Writes{Clock: clock.RealClock{}}, Selectors: &health.Selectors{}, Watch: "own"}
			if _, err := u.Reconcile(t.Context(), m.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || health.HasConditions(m) != test.kept {
				t.Errorf("the Machine has conditions of the check %t, error %v", health.HasConditions(m), err)
			}
		})
	}
}
