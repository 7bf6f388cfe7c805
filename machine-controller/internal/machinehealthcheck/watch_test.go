// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/testenv"
)

// TestTargetsAreTheManagersOwn selects Machines of several managers by one selector.
func TestTargetsAreTheManagersOwn(t *testing.T) {
	t.Parallel()
	check := newCheck("ns", "check")
	s := &state{check: check}
	for _, watch := range []string{"own", "other", ""} {
		m := testenv.Machine("ns", "m-"+watch)
		m.Labels = map[string]string{}
		for key, value := range check.Spec.Selector.MatchLabels {
			m.Labels[key] = value
		}
		if watch != "" {
			m.Labels[clusterv1.WatchLabel] = watch
		}
		s.all = append(s.all, m)
	}
	own, err := health.Selector(check)
	if err != nil {
		t.Fatal(err)
	}
	s.choose("own", selecting{check.Name, own}, nil)
	var names []string
	for _, m := range s.targets {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"m-own"}, names); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// TestClusterThatBecomesReadyTriggersItsChecks changes the conditions before which no Machine is evaluated.
func TestClusterThatBecomesReadyTriggersItsChecks(t *testing.T) {
	t.Parallel()
	cluster := func(infrastructure, controlPlane metav1.ConditionStatus, message string) *clusterv1.Cluster {
		c := testenv.Cluster("ns")
		conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: infrastructure, Reason: "Test", Message: message})
		conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: controlPlane, Reason: "Test"})
		return c
	}
	before := cluster(metav1.ConditionFalse, metav1.ConditionFalse, "")
	got := map[string]bool{}
	for name, after := range map[string]*clusterv1.Cluster{
		"its infrastructure is ready":      cluster(metav1.ConditionTrue, metav1.ConditionFalse, ""),
		"its control plane is initialized": cluster(metav1.ConditionFalse, metav1.ConditionTrue, ""),
		"another message":                  cluster(metav1.ConditionFalse, metav1.ConditionFalse, "other"),
	} {
		got[name] = clusterReadyChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	want := map[string]bool{"its infrastructure is ready": true, "its control plane is initialized": true, "another message": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what triggers a reconcile (-want +got):\n%s", diff)
	}
}

// TestCheckThatIsHandedOverWakesTheOthers labels the older of two checks for another manager, and for this one again.
func TestCheckThatIsHandedOverWakesTheOthers(t *testing.T) {
	t.Parallel()
	w := newFilteredEnvironment(t, true, "own")
	own := func(o client.Object) { o.SetLabels(map[string]string{clusterv1.WatchLabel: "own", "pool": "a"}) }
	m := w.machine("m-0", "pool-a")
	w.change(m, func() { own(m) })
	older := w.check("a-older", func(check *clusterv1.MachineHealthCheck) { own(check) })
	younger := w.check("b-younger", func(check *clusterv1.MachineHealthCheck) { own(check) })
	expect := func(check *clusterv1.MachineHealthCheck, machines int32) {
		t.Helper()
		w.Eventually(func(g gomega.Gomega) {
			g.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(gomega.Succeed())
			g.Expect(check.Status.ExpectedMachines).To(gomega.HaveValue(gomega.Equal(machines)))
		}).Should(gomega.Succeed())
	}
	expect(older, 1)
	expect(younger, 0)
	w.change(older, func() { older.Labels[clusterv1.WatchLabel] = "other" })
	expect(younger, 1)
	w.change(older, func() { own(older) })
	expect(younger, 0)
}

// TestAnothersCheckTakesNoPrecedence has older checks of two managers.
func TestAnothersCheckTakesNoPrecedence(t *testing.T) {
	t.Parallel()
	api, namespace := management.Client(t), management.Namespace(t)
	for _, name := range []string{"a-own", "b-other", "c-mine"} {
		check := newCheck(namespace, name)
		check.Labels = map[string]string{clusterv1.WatchLabel: "own"}
		if name == "b-other" {
			check.Labels[clusterv1.WatchLabel] = "other"
		}
		if err := api.Create(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	mine := newCheck(namespace, "c-mine") // which never was created, for it has no UID: all are older
	mine.CreationTimestamp.Time = mine.CreationTimestamp.AddDate(9999, 0, 0)
	r := &Reconciler{Client: indextest.NewClient(t, api), watch: "own"}
	older, err := r.olderChecks(t.Context(), mine)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, olderCheck := range older {
		names = append(names, olderCheck.name)
	}
	if diff := cmp.Diff([]string{"a-own", "c-mine"}, names); diff != "" {
		t.Errorf("checks that come first (-want +got):\n%s", diff)
	}
}
