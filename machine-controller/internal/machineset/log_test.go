// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/logtest"
)

// reconcileLogged reconciles the stored set and returns what was logged, without the namespace of the test.
func reconcileLogged(t *testing.T, r *Reconciler, c client.Client, set *clusterv1.MachineSet, verbosity int) []string {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	recorder := &logtest.TextRecorder{Verbosity: verbosity}
	if _, err := r.Reconcile(recorder.Context(t.Context()), set.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range recorder.Take() {
		got = append(got, strings.ReplaceAll(line, set.Namespace, "ns"))
	}
	return got
}

func TestEveryChangeIsOneLine(t *testing.T) {
	t.Parallel()
	const cluster = `Cluster=ns/c`
	for name, test := range map[string]struct {
		prepare func(set *clusterv1.MachineSet, m *clusterv1.Machine)
		want    []string
	}{
		"nothing where nothing changes": {prepare: func(*clusterv1.MachineSet, *clusterv1.Machine) {}},
		"a scale-down": {
			func(set *clusterv1.MachineSet, _ *clusterv1.Machine) { set.Spec.Replicas = new(int32(0)) },
			[]string{`deleted Machine ` + cluster + ` Machine=ns/m reason=ScaleDown`},
		},
		"an adoption": {
			func(_ *clusterv1.MachineSet, m *clusterv1.Machine) { m.OwnerReferences = nil },
			[]string{`adopted Machine ` + cluster + ` Machine=ns/m`},
		},
		"a release, after which a Machine is missing": {
			func(set *clusterv1.MachineSet, m *clusterv1.Machine) {
				m.Labels["pool"] = "b"
				set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
			},
			[]string{`released Machine ` + cluster + ` Machine=ns/m`},
		},
		"a change in place": {
			func(set *clusterv1.MachineSet, _ *clusterv1.Machine) {
				set.Spec.Template.Spec.MinReadySeconds = new(int32(5))
			},
			[]string{`updated Machines in place ` + cluster + ` count=1`},
		},
		"a freeze": {
			func(set *clusterv1.MachineSet, _ *clusterv1.Machine) {
				set.Annotations = map[string]string{droverpolicyv1.FreezeAnnotation: "true"}
			},
			[]string{`froze MachineSet ` + cluster + ` reason=FrozenByAnnotation message=MachineSet "s" is frozen by its annotation drover.io/freeze: no Machines are created or replaced until it is removed count=1 replicas=1`},
		},
		"a default": {
			func(set *clusterv1.MachineSet, _ *clusterv1.Machine) { set.Spec.Replicas = nil },
			[]string{`set default replicas of MachineSet ` + cluster + ` replicas=1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := clusterAndSet()
			set.Spec.Replicas, set.Status = new(int32(1)), clusterv1.MachineSetStatus{Replicas: new(int32(1))}
			m := creation.NewMachine(set, "m")
			m.Spec.Bootstrap, m.Spec.InfrastructureRef = testenv.MachineSpec().Bootstrap, testenv.MachineSpec().InfrastructureRef
			test.prepare(set, m)
			r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, m)
			if diff := cmp.Diff(test.want, reconcileLogged(t, r, inner, set, 0)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			for range 2 {
				if got := reconcileLogged(t, r, inner, set, 0); len(got) > 0 {
					t.Errorf("a reconcile without changes logs %q", got)
				}
			}
		})
	}
}

func TestDeletionIsLogged(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Finalizers = []string{clusterv1.MachineSetFinalizer}
	m := creation.NewMachine(set, "m")
	m.Finalizers = nil
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, m)
	if err := inner.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	const of = `Cluster=ns/c`
	if diff := cmp.Diff([]string{`deleted Machine ` + of + ` Machine=ns/m reason=MachineSetDeleted`}, reconcileLogged(t, r, inner, set, 0)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`removed finalizer from MachineSet ` + of + ` reason=NoMachinesLeft`}, reconcileLogged(t, r, inner, set, 0)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestDeniedCreationIsLoggedAtVerbosity1 has a set that may not create the Machine that it lacks.
func TestDeniedCreationIsLoggedAtVerbosity1(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set)
	want := []string{`did not create Machines Cluster=ns/c count=3 reason=CreationDisabled message=cluster.x-k8s.io/disable-machine-create`}
	if diff := cmp.Diff(want, reconcileLogged(t, r, inner, set, 1)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := reconcileLogged(t, r, inner, set, 0); len(got) > 0 {
		t.Errorf("level 0 has %q", got)
	}
}

// TestRemediationIsLogged has a Machine that waits for its replacement, and that recovers.
func TestRemediationIsLogged(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Spec.Replicas = new(int32(1))
	set.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
	m := creation.NewMachine(set, "m")
	healthCheckFailed(m)
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, m, checkOf(set))
	of := `Cluster=ns/c`
	want := []string{
		`did not replace unhealthy Machines ` + of + ` count=1 reason=RemediationDeferred message=Waiting because the annotation cluster.x-k8s.io/disable-machine-create forbids to create its replacement`,
		`started remediation of MachineSet ` + of + ` count=1`,
	}
	if diff := cmp.Diff(want, reconcileLogged(t, r, inner, set, 1)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	before := m.DeepCopy()
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	if err := inner.Status().Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.setUp() // the status need not wait
	if diff := cmp.Diff([]string{`finished remediation of MachineSet ` + of}, reconcileLogged(t, r, inner, set, 0)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
