// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/workload"
)

// stored is a set with Machines on an API server, and the reconciler of it.
type stored struct {
	*Reconciler
	client client.Client
	set    *clusterv1.MachineSet
}

// store creates a set of that many replicas with both templates and with Machines, of which those whose names begin with
// "failed" have failed a health check, which selects them, and those that begin with "deleting" are being deleted.
func store(t *testing.T, replicas int32, change func(*clusterv1.MachineSet), names ...string) *stored {
	t.Helper()
	cluster, set := clusterAndSet()
	set.Spec.Replicas, set.Status = &replicas, clusterv1.MachineSetStatus{}
	if change != nil {
		change(set)
	}
	objects := []client.Object{cluster, set}
	if slices.ContainsFunc(names, func(name string) bool { return name[0] == 'f' }) {
		objects = append(objects, checkOf(set))
	}
	for _, name := range names {
		m := creation.NewMachine(set, name)
		m.Status.NodeRef.Name = name // it has joined
		if name[0] == 'f' {
			healthCheckFailed(m)
		}
		if name == "failed-1" { // comes first, whether or not the second one is created in the same second
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
		}
		objects = append(objects, m)
	}
	r, inner := reconcilerWith(t, interceptor.Funcs{}, objects...)
	for kind, version := range map[string]string{"ThingMachineTemplate": infraVersion, "ThingConfigTemplate": bootstrapVersion} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": "big"}}}}}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		o.SetNamespace(set.Namespace)
		o.SetName("t")
		if err := inner.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects[2:] {
		if o.GetName()[0] == 'd' {
			if err := inner.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &stored{r, inner, set}
}

// reconcileOnce reconciles the set.
func (s *stored) reconcileOnce(t *testing.T) {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.set), s.set); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), s.set); err != nil {
		t.Fatal(err)
	}
}

// machines are the names of the Machines, and whether each is being deleted. One that the test did not name is "new".
func (s *stored) machines(t *testing.T, names ...string) map[string]bool {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := s.client.List(t.Context(), list, client.InNamespace(s.set.Namespace)); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	found := map[string]bool{}
	for _, m := range list.Items {
		name := m.Name
		if !known[name] {
			name = "new"
		}
		found[name] = m.DeletionTimestamp != nil
	}
	return found
}

func TestRemediation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas int32
		machines []string
		change   func(*clusterv1.MachineSet)
		guard    func(*stored)
		down     []string // Machines in a failure domain without others
		want     map[string]bool
	}{
		"it deletes an unhealthy Machine": {
			replicas: 3, machines: []string{"failed", "a", "b"}, want: map[string]bool{"failed": true, "a": false, "b": false},
		},
		"it creates none in the reconcile that deletes one": {
			replicas: 4, machines: []string{"failed", "a", "b"}, want: map[string]bool{"failed": true, "a": false, "b": false},
		},
		"it does not wait for Machines of a scale-down": {
			replicas: 3, machines: []string{"deleting", "failed", "a", "b"},
			want: map[string]bool{"deleting": true, "failed": true, "a": false, "b": false},
		},
		"it leaves a surplus to the scale-down": {
			replicas: 1, machines: []string{"failed", "a"}, want: map[string]bool{"failed": true, "a": false},
		},
		"it keeps Machines while the workload cluster is unreachable": {
			replicas: 3, machines: []string{"failed", "a", "b"}, want: map[string]bool{"failed": false, "a": false, "b": false},
			guard: func(s *stored) {
				s.Guard.Workload = func(client.ObjectKey) workload.State {
					return workload.State{Connected: true, ConsecutiveFailures: 1, Claim: workload.Claim{Status: workload.ClaimHeld}}
				}
			},
		},
		"it replaces one at a time": {
			replicas: 6, machines: []string{"failed-1", "failed-2", "a", "b", "c", "d"},
			want: map[string]bool{"failed-1": true, "failed-2": false, "a": false, "b": false, "c": false, "d": true},
		},
		"it replaces an annotated Machine in a failure domain that is down": {
			replicas: 4, machines: []string{"failed-1", "failed-2", "a", "b"}, down: []string{"failed-1", "failed-2"},
			want: map[string]bool{"failed-1": true, "failed-2": false, "a": false, "b": false},
		},
		"it keeps the others in a failure domain that is down": {
			replicas: 4, machines: []string{"failed-2", "failed-3", "a", "b"}, down: []string{"failed-2", "failed-3"},
			want: map[string]bool{"failed-2": false, "failed-3": false, "a": false, "b": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, test.replicas, test.change, test.machines...)
			for _, name := range test.down {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace, Name: name}}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"failureDomain": "x"}}`))
				if err := s.client.Patch(t.Context(), m, patch); err != nil {
					t.Fatal(err)
				}
			}
			if test.guard != nil {
				cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace, Name: "c"}}
				if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
					t.Fatal(err)
				}
				cluster.Status.Initialization.ControlPlaneInitialized = new(true)
				if err := s.client.Status().Update(t.Context(), cluster); err != nil {
					t.Fatal(err)
				}
				test.guard(s)
			}
			s.reconcileOnce(t)
			if diff := cmp.Diff(test.want, s.machines(t, test.machines...)); diff != "" {
				t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkWithoutAHealthCheckHasNoEffect has a Machine whose health check was deleted: its mark is removed by the controller
// of these, which need not have seen that yet.
func TestMarkWithoutAHealthCheckHasNoEffect(t *testing.T) {
	t.Parallel()
	s := store(t, 3, nil, "failed", "a", "b")
	if err := s.client.Delete(t.Context(), checkOf(s.set)); err != nil {
		t.Fatal(err)
	}
	s.reconcileOnce(t)
	want := map[string]bool{"failed": false, "a": false, "b": false}
	if diff := cmp.Diff(want, s.machines(t, "failed", "a", "b")); diff != "" {
		t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
	}
}

// TestMarkOfAnotherManagersCheckHasNoEffect has a Machine that a health check with a watch-filter label selects: that of
// another manager does not update the mark.
func TestMarkOfAnotherManagersCheckHasNoEffect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		labels  map[string]string
		deleted bool
	}{
		"it deletes a Machine that a check of this manager selects":              {map[string]string{clusterv1.WatchLabel: "own"}, true},
		"it does not act on a mark that only a check of another manager selects": {map[string]string{clusterv1.WatchLabel: "other"}, false},
		"it does not act on a mark that only a check of no manager selects":      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, 3, nil, "failed", "a", "b")
			s.watch = "own"
			s.setUp()
			check := checkOf(s.set)
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(check), check); err != nil {
				t.Fatal(err)
			}
			check.Labels = test.labels
			if err := s.client.Update(t.Context(), check); err != nil {
				t.Fatal(err)
			}
			s.reconcileOnce(t)
			want := map[string]bool{"failed": test.deleted, "a": false, "b": false}
			if diff := cmp.Diff(want, s.machines(t, "failed", "a", "b")); diff != "" {
				t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSupersededSetLeavesRemediationToTheRollout has an unhealthy Machine in a set whose MachineDeployment has another template,
// before and after the MachineSet of that template exists.
func TestSupersededSetLeavesRemediationToTheRollout(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]bool{"before the new MachineSet exists": false, "after the new MachineSet exists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, 1, nil, "failed")
			md := validDeployment(s.set.Namespace)
			md.Spec.Template.Spec.Version, md.Spec.ClusterName = "v1.36.9", "c"
			md.Annotations = nil // it is not paused
			if err := s.client.Create(t.Context(), md); err != nil {
				t.Fatal(err)
			}
			owners := []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
			if exists {
				newer := machineSet(s.set.Namespace)
				newer.Name, newer.OwnerReferences = "newer", owners
				newer.Spec.Replicas, newer.Spec.Template.Spec = new(int32(0)), *md.Spec.Template.Spec.DeepCopy()
				if err := s.client.Create(t.Context(), newer); err != nil {
					t.Fatal(err)
				}
			}
			before := s.set.DeepCopy()
			s.set.OwnerReferences = owners
			if err := s.client.Patch(t.Context(), s.set, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first gives the Machine the label of the MachineDeployment
				s.reconcileOnce(t)
			}
			m := &clusterv1.Machine{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.set.Namespace, Name: "failed"}, m); err != nil {
				t.Fatal(err)
			}
			if reason := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition); reason != clusterv1.MachineSetMachineCannotBeRemediatedReason || m.DeletionTimestamp != nil {
				t.Errorf("the reason is %q, deleted at %v", reason, m.DeletionTimestamp)
			}
		})
	}
}

// TestNewestSetReplacesWhileANewTemplateWaits has an unhealthy Machine in the only set of a MachineDeployment whose template has
// changed since, and for which no MachineSet is created yet.
func TestNewestSetReplacesWhileANewTemplateWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*clusterv1.MachineDeployment)
		observed bool
		want     bool
	}{
		"while spec.paused is set": {observed: true, want: true, change: func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) }},
		"while the MachineDeployment is paused by its annotation": {want: true, change: func(md *clusterv1.MachineDeployment) {
			md.Annotations[clusterv1.PausedAnnotation] = ""
		}},
		"while the new template does not exist":      {observed: true, want: true, change: func(*clusterv1.MachineDeployment) {}},
		"not before the template is observed":        {change: func(*clusterv1.MachineDeployment) {}},
		"while the new MachineSet cannot be created": {observed: true, want: true, change: func(md *clusterv1.MachineDeployment) { md.Annotations[clusterv1.RevisionAnnotation] = "2" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, 1, func(set *clusterv1.MachineSet) {
				set.Annotations = map[string]string{clusterv1.RevisionAnnotation: "1"}
			}, "failed")
			md := validDeployment(s.set.Namespace)
			md.Spec.Template.Spec.Version, md.Spec.ClusterName = "v1.36.9", "c"
			md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "1"}
			test.change(md)
			if err := s.client.Create(t.Context(), md); err != nil {
				t.Fatal(err)
			}
			if test.observed {
				md.Status.ObservedGeneration = md.Generation
				if err := s.client.Status().Update(t.Context(), md); err != nil {
					t.Fatal(err)
				}
			}
			before := s.set.DeepCopy()
			s.set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
			if err := s.client.Patch(t.Context(), s.set, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first gives the Machine the label of the MachineDeployment
				s.reconcileOnce(t)
			}
			if diff := cmp.Diff(map[string]bool{"failed": test.want}, s.machines(t, "failed")); diff != "" {
				t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	foreign := func(s *stored) {
		s.Guard.Workload = func(client.ObjectKey) workload.State {
			return workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimForeign, Message: "another acts"}}
		}
	}
	for name, test := range map[string]struct {
		replicas int32
		machines []string
		guard    func(*stored)
		want     map[string]bool
	}{
		"it creates what is missing":                         {replicas: 2, machines: []string{"a"}, want: map[string]bool{"a": false, "new": false}},
		"it counts Machines that are being deleted":          {replicas: 2, machines: []string{"deleting", "a"}, want: map[string]bool{"deleting": true, "a": false}},
		"it deletes a surplus, those being deleted first":    {replicas: 1, machines: []string{"deleting", "a"}, want: map[string]bool{"deleting": true, "a": false}},
		"it deletes all of a set of none":                    {replicas: 0, machines: []string{"a", "b"}, want: map[string]bool{"a": true, "b": true}},
		"it creates none that another manager may have":      {replicas: 2, machines: []string{"a"}, guard: foreign, want: map[string]bool{"a": false}},
		"it deletes no surplus that another manager may use": {replicas: 0, machines: []string{"a"}, guard: foreign, want: map[string]bool{"a": false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, test.replicas, nil, test.machines...)
			if test.guard != nil {
				test.guard(s)
			}
			s.reconcileOnce(t)
			if diff := cmp.Diff(test.want, s.machines(t, test.machines...)); diff != "" {
				t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepairCreatesMissingChildren has a Machine that reports that its children do not exist.
func TestRepairCreatesMissingChildren(t *testing.T) {
	t.Parallel()
	s := store(t, 1, nil, "a")
	m := &clusterv1.Machine{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.set.Namespace, Name: "a"}, m); err != nil {
		t.Fatal(err)
	}
	before := m.DeepCopy()
	for _, kind := range []string{clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: clusterv1.ObjectDoesNotExistReason})
	}
	if err := s.client.Status().Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time they exist
		s.reconcileOnce(t)
	}
	for kind, version := range map[string]string{"ThingMachine": infraVersion, "ThingConfig": bootstrapVersion} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(m), o); err != nil || !metav1.IsControlledBy(o, m) {
			t.Errorf("%s: owners %v, error %v", kind, o.GetOwnerReferences(), err)
		}
	}
}
