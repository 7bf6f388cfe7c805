// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const infraVersion, bootstrapVersion = "infrastructure.test.io/v1", "bootstrap.test.io/v1"

// waitComplete waits until the set has that many Machines, each with exactly one config and one
// infrastructure object, and has counted them.
func (w *environment) waitComplete(set *clusterv1.MachineSet, replicas int) {
	w.Helper()
	w.Eventually(func(g gomega.Gomega) {
		machines := w.names(clusterv1.GroupVersion.String(), "Machine")
		g.Expect(machines).To(gomega.HaveLen(replicas))
		g.Expect(w.names(infraVersion, "ThingMachine")).To(gomega.ConsistOf(machines))
		g.Expect(w.names(bootstrapVersion, "ThingConfig")).To(gomega.ConsistOf(machines))
		g.Expect(w.client.Get(w.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		g.Expect(set.Status.Replicas).To(gomega.HaveValue(gomega.BeEquivalentTo(replicas)))
		g.Expect(conditions.IsFalse(set, clusterv1.MachineSetScalingUpCondition)).To(gomega.BeTrue())
	}).Should(gomega.Succeed(), w.name)
}

// waitDeleted waits until nothing is left.
func (w *environment) waitDeleted() {
	w.Helper()
	w.Eventually(func(g gomega.Gomega) {
		for _, each := range [][2]string{
			{clusterv1.GroupVersion.String(), "MachineSet"}, {clusterv1.GroupVersion.String(), "Machine"},
			{infraVersion, "ThingMachine"}, {bootstrapVersion, "ThingConfig"},
		} {
			g.Expect(w.names(each[0], each[1])).To(gomega.BeEmpty(), each[1])
		}
	}).Should(gomega.Succeed(), w.name)
}

func TestMachinesAreCreatedWithOwners(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := w.set(2)
	w.waitComplete(set, 2)
	for _, kind := range []string{"Machine", "ThingMachine", "ThingConfig"} {
		sent := faults.created(w.namespace, kind)
		if len(sent) != 2 {
			t.Fatalf("%d of kind %s were sent, want 2", len(sent), kind)
		}
		for _, o := range sent {
			owner := metav1.GetControllerOf(o)
			want := "Machine"
			if kind == "Machine" {
				want = "MachineSet"
				if diff := cmp.Diff([]string{clusterv1.MachineFinalizer}, o.GetFinalizers()); diff != "" {
					t.Errorf("finalizers: %s", diff)
				}
			}
			if owner == nil || owner.Kind != want || owner.UID == "" || len(o.GetOwnerReferences()) != 1 {
				t.Errorf("%s %q was sent with owners %v", kind, o.GetName(), o.GetOwnerReferences())
			}
			if o.GetLabels()[clusterv1.ClusterNameLabel] != "c" || o.GetLabels()["pool"] != "a" {
				t.Errorf("%s %q was sent with labels %v", kind, o.GetName(), o.GetLabels())
			}
		}
	}
	if err := w.client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.waitDeleted()
}

func TestMissingTemplateIsReportedUntilItExists(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	set := w.set(1)
	w.Eventually(func(g gomega.Gomega) {
		g.Expect(w.client.Get(w.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		g.Expect(conditions.GetMessage(set, clusterv1.MachineSetScalingUpCondition)).To(gomega.And(
			gomega.ContainSubstring("ThingMachineTemplate"), gomega.ContainSubstring(`"t"`)))
	}).Should(gomega.Succeed())
	if made := w.names(clusterv1.GroupVersion.String(), "Machine"); len(made) != 0 {
		t.Errorf("Machines %q were made from nothing", made)
	}
	w.templates()
	before := set.DeepCopy()
	set.Annotations = map[string]string{"look": "again"}
	if err := w.client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.waitComplete(set, 1)
}

func TestScalesDownAndUp(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := w.set(4)
	w.waitComplete(set, 4)
	for _, replicas := range []int32{1, 3, 0} {
		before := set.DeepCopy()
		set.Spec.Replicas = &replicas
		if err := w.client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		w.waitComplete(set, int(replicas))
	}
	if made := faults.created(w.namespace, "Machine"); len(made) != 6 {
		t.Errorf("%d Machines were made, want 6", len(made))
	}
}

// Cluster API's own controller leaves this annotation with "false" on every set of a MachineDeployment.
func TestCreatesWhereCreationIsExpresslyNotDisabled(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := machineSet(w.namespace)
	set.Spec.Replicas = new(int32(1))
	set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "false"}
	w.create(set)
	w.waitComplete(set, 1)
}

// TestAnySingleWriteMayFail has each write of a creation and of a deletion fail once, before it is
// sent and after, when only the answer is lost. Whatever happens, there are never more
// Machines than requested, and in the end nothing is left. All cases run in parallel.
func TestAnySingleWriteMayFail(t *testing.T) {
	t.Parallel()
	const replicas = 2
	reset := errors.New("connection reset by peer")
	kinds := map[string]fault{
		"not sent":    {err: reset},
		"answer lost": {err: reset, lost: true},
	}
	creating := map[string]fault{
		"answered by an error though": {err: apierrors.NewInternalError(reset), lost: true},
		"repeated by a proxy":         {err: apierrors.NewAlreadyExists(clusterv1.GroupVersion.WithResource("x").GroupResource(), "x"), lost: true},
	}
	type testCase struct {
		*environment
		fault *fault
		set   *clusterv1.MachineSet
	}
	var cases []testCase
	begin := func(controller string, last int, kinds map[string]fault) {
		for n := 1; n <= last; n++ {
			for how, f := range kinds {
				f.controller, f.n = controller, n
				w := newEnvironment(t, &f)
				w.name = fmt.Sprintf("write %d of the %s controller, %s", n, controller, how)
				w.templates()
				cases = append(cases, testCase{w, &f, w.set(replicas)})
			}
		}
	}
	begin("machineset", 15, kinds)
	begin("machineset", 9, creating)
	begin("machine", 12, kinds)
	for _, each := range cases {
		each.waitComplete(each.set, replicas)
	}
	for _, each := range cases {
		if err := each.client.Delete(t.Context(), each.set); err != nil {
			t.Fatal(err)
		}
	}
	fired := map[string]int{}
	for _, each := range cases {
		each.waitDeleted()
		if made := faults.created(each.namespace, "Machine"); len(made) != replicas {
			t.Errorf("%s: %d Machines were made, want %d", each.name, len(made), replicas)
		}
		if faults.fired(each.namespace) {
			fired[each.fault.controller] = max(fired[each.fault.controller], each.fault.n)
		}
	}
	// Creating two takes nine writes of one controller, and deleting each two of the other.
	if fired["machineset"] < 9 || fired["machine"] < 4 {
		t.Errorf("only the first %v writes ever failed", fired)
	}
	t.Logf("%d cases; writes that failed: %v", len(cases), fired)
}
