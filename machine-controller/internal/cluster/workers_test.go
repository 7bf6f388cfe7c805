// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
)

// clientWith reads a server that has these objects in the namespace.
func clientWith(t *testing.T, namespace string, objects ...client.Object) client.WithWatch {
	t.Helper()
	api := indextest.NewClient(t, server.Client(t))
	indextest.Create(t, api, namespace, objects...)
	return api
}

// member is metadata of an object of the Cluster "c", controlled by owner unless that is empty.
func member(name, owner string, labels map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}
	if owner != "" {
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "X", Name: owner, UID: "uid-of-owner", Controller: new(true)}}
	}
	return meta
}

func machine(name, owner string, labels map[string]string, are ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: member(name, owner, labels), Spec: testenv.MachineSpec()}
	for _, kind := range are {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "r"})
	}
	return m
}

func TestWorkersAreCountedOnceAtTheHighestLevel(t *testing.T) {
	t.Parallel()
	plane := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	template := clusterv1.MachineTemplateSpec{Spec: testenv.TemplateSpec()}
	md := &clusterv1.MachineDeployment{ObjectMeta: member("md", "", nil), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c", Replicas: new(int32(10)), Template: template}}
	md.Status = clusterv1.MachineDeploymentStatus{Replicas: new(int32(9)), ReadyReplicas: new(int32(8)), AvailableReplicas: new(int32(7)), UpToDateReplicas: new(int32(6))}
	md.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 2}, {Version: "v1.36.1", Replicas: 7}}
	set := &clusterv1.MachineSet{ObjectMeta: member("set", "", nil), Spec: clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(100)), Template: template}}
	set.Status.Replicas, set.Status.Versions = new(int32(50)), []clusterv1.StatusVersion{{Version: "v1.36.1", Replicas: 50}}
	alone, planeAlone := machine("alone", "", nil, clusterv1.MachineReadyCondition), machine("plane-alone", "", plane)
	alone.Spec.Version, planeAlone.Spec.Version = "1.36.0", "v1.36.2"
	owned := &clusterv1.MachineSet{ObjectMeta: member("owned", "md", nil), Spec: clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(1000)), Template: template}}
	foreign := &clusterv1.MachineSet{ObjectMeta: member("foreign", "", nil), Spec: clusterv1.MachineSetSpec{ClusterName: "other", Replicas: new(int32(1000)), Template: template}}
	foreign.Spec.Template.Spec.ClusterName = "other"
	s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "c"}}}
	r := &Reconciler{Client: clientWith(t, s.cluster.Namespace, md, set, owned, foreign,
		alone, machine("of-a-set", "owned", nil, clusterv1.MachineReadyCondition),
		machine("plane", "kcp", plane, clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition),
		planeAlone,
	), Workloads: workload.New(workload.Options{})}
	if err := r.observe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := &clusterv1.WorkersStatus{
		DesiredReplicas: new(int32(111)), Replicas: new(int32(60)), ReadyReplicas: new(int32(9)), AvailableReplicas: new(int32(7)), UpToDateReplicas: new(int32(6)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 3}, {Version: "v1.36.1", Replicas: 57}},
	}
	if diff := cmp.Diff(want, s.workers.status()); diff != "" {
		t.Error(diff)
	}
	wantPlane := &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: new(int32(2)), Replicas: new(int32(2)), ReadyReplicas: new(int32(1)), AvailableReplicas: new(int32(1)), UpToDateReplicas: new(int32(0)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.2", Replicas: 1}},
	}
	if diff := cmp.Diff(wantPlane, controlPlaneStatus(s)); diff != "" {
		t.Error(diff)
	}
}

func TestStandaloneTriggersItsCluster(t *testing.T) {
	t.Parallel()
	deleted := machine("m", "s", nil)
	deleted.DeletionTimestamp = new(metav1.Now())
	plane := machine("m", "s", map[string]string{clusterv1.MachineControlPlaneLabel: ""})
	request := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "c"}}}
	for name, test := range map[string]struct {
		object client.Object
		want   []reconcile.Request
	}{
		"when nothing controls it":        {machine("m", "", nil), request},
		"not when its controller does":    {machine("m", "s", nil), nil},
		"when it is being deleted":        {deleted, request},
		"when it is of the control plane": {plane, request},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, clusterOfStandalone(t.Context(), test.object)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// object is something of the Cluster with the UID "c".
func object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetName(name)
	o.SetUID("uid")
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c"}})
	return o
}

func TestDeletionStages(t *testing.T) {
	t.Parallel()
	md := &clusterv1.MachineDeployment{ObjectMeta: member("md", "", nil)}
	set := &clusterv1.MachineSet{ObjectMeta: member("set", "", nil)}
	alone, plane := machine("alone", "", nil), machine("plane", "", nil)
	goingMD := md.DeepCopy()
	goingMD.DeletionTimestamp = new(metav1.Now())
	infra, kcp := &contract.InfraCluster{Object: contract.Object{Unstructured: object("infra")}}, &contract.ControlPlane{Object: contract.Object{Unstructured: object("kcp")}}
	// labelled is that an object which the UID owns is labelled for another manager.
	labelled := func(owner types.UID) error {
		return &predicates.ForeignError{Kind: "K", Name: "k", Value: "old", Own: "new", Owners: []metav1.OwnerReference{{UID: owner}}}
	}
	const (
		workersStage = clusterv1.ClusterDeletingWaitingForWorkersDeletionReason
		planeStage   = clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason
		infraStage   = clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason
	)
	for name, test := range map[string]struct {
		workers         workers
		refs            bool
		infra           *contract.InfraCluster
		infraErr        error
		plane           *contract.ControlPlane
		controlPlaneErr error
		stage, message  string
		deletes         []string
		done            bool
	}{
		"deletes all workers first": {
			workers: workers{deployments: []*clusterv1.MachineDeployment{md}, sets: []*clusterv1.MachineSet{set}, machines: []*clusterv1.Machine{alone}, all: []*clusterv1.Machine{alone, plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, plane: kcp, stage: workersStage, deletes: []string{"md", "set", "alone"},
		},
		"does not delete twice": {
			workers: workers{deployments: []*clusterv1.MachineDeployment{goingMD}}, stage: workersStage,
		},
		"waits for machines that their owners delete": {
			workers: workers{all: []*clusterv1.Machine{machine("m", "set", nil)}}, stage: workersStage,
		},
		"deletes the control plane next": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, plane: kcp, stage: planeStage, deletes: []string{"kcp"},
		},
		"does not touch machines of a control plane that cannot be read": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, controlPlaneErr: errors.New("boom"), stage: planeStage,
		},
		"deletes control plane machines that the control plane left": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, controlPlaneErr: notFound, stage: planeStage, deletes: []string{"plane"},
		},
		"deletes control plane machines that stand alone": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}}, stage: planeStage, deletes: []string{"plane"},
		},
		"deletes the infrastructure last": {
			refs: true, infra: infra, controlPlaneErr: notFound, stage: infraStage, deletes: []string{"infra"},
		},
		"waits for infrastructure that cannot be read": {
			refs: true, infraErr: errors.New("boom"), controlPlaneErr: notFound, stage: infraStage,
		},
		"keeps infrastructure of another and is done": {
			refs: true, infraErr: &ownership.ForeignError{}, controlPlaneErr: notFound, done: true,
		},
		"leaves a control plane of another, and deletes its own machines": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, controlPlaneErr: &ownership.ForeignError{}, stage: planeStage, deletes: []string{"plane"},
		},
		"waits for its control plane with the label of another manager": {
			workers: workers{all: []*clusterv1.Machine{plane}, controlPlane: []*clusterv1.Machine{plane}},
			refs:    true, infra: infra, controlPlaneErr: labelled("c"), stage: droverpolicyv1.BlockedReason, message: `K "k" has the label cluster.x-k8s.io/watch-filter: "old"`,
		},
		"waits for its infrastructure with the label of another manager": {
			refs: true, infraErr: labelled("c"), controlPlaneErr: notFound, stage: droverpolicyv1.BlockedReason, message: `K "k" has the label cluster.x-k8s.io/watch-filter: "old"`,
		},
		"leaves what another manager has, and this Cluster does not own": {refs: true, infraErr: labelled("other"), controlPlaneErr: labelled("other"), done: true},
		"is done when all is deleted":                                    {refs: true, infraErr: notFound, controlPlaneErr: notFound, done: true},
		"is done when there was nothing":                                 {done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var deleted []string
			c := interceptor.NewClient(server.Client(t), interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
					deleted = append(deleted, o.GetName())
					return nil
				},
			})
			s := &state{
				cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", Finalizers: []string{clusterv1.ClusterFinalizer}, DeletionTimestamp: new(metav1.Now())}},
				workers: test.workers, infra: test.infra, infraErr: test.infraErr, controlPlane: test.plane, controlPlaneErr: test.controlPlaneErr,
			}
			if test.refs {
				s.cluster.Spec.InfrastructureRef, s.cluster.Spec.ControlPlaneRef = infraRef, planeRef
			}
			if _, err := (deletion{client: c, live: unchanged{}}).run(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.deletes, deleted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("deleted: %s", diff)
			}
			if gone := len(s.cluster.Finalizers) == 0; gone != test.done || (!gone && s.deletion.reason != test.stage) {
				t.Errorf("stage %q, finalizers %v", s.deletion.reason, s.cluster.Finalizers)
			}
			if !strings.Contains(s.deletion.message, test.message) {
				t.Errorf("message %q, want one with %q", s.deletion.message, test.message)
			}
		})
	}
}

// TestRefusedDeletionOfAWorkerIsReported has a MachineDeployment that an admission policy protects.
func TestRefusedDeletionOfAWorkerIsReported(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(server.Client(t), interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machinedeployments").GroupResource(), o.GetName(), errors.New("it is protected"))
		},
	})
	s := &state{
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", DeletionTimestamp: new(metav1.Now())}},
		workers: workers{deployments: []*clusterv1.MachineDeployment{{ObjectMeta: member("md", "", nil)}}},
	}
	if _, err := (deletion{client: c, live: unchanged{}}).run(t.Context(), s); err == nil || s.deletion.reason != droverpolicyv1.BlockedReason || !strings.Contains(s.deletion.message, "it is protected") {
		t.Errorf("reason %q, message %q, error %v", s.deletion.reason, s.deletion.message, err)
	}
}

func TestNothingIsDecidedWhileWorkersCannotBeCounted(t *testing.T) {
	t.Parallel()
	cluster := testenv.Cluster("")
	cluster.Finalizers = []string{clusterv1.ClusterFinalizer, "test/keep"}
	cluster.Status.Workers = &clusterv1.WorkersStatus{Replicas: new(int32(3))}
	for name, test := range map[string]struct {
		deleting bool
		list     client.ObjectList
	}{
		"deployments, at rest":     {false, &clusterv1.MachineDeploymentList{}},
		"sets, at rest":            {false, &clusterv1.MachineSetList{}},
		"machines, at rest":        {false, &clusterv1.MachineList{}},
		"deployments, on deletion": {true, &clusterv1.MachineDeploymentList{}},
		"sets, on deletion":        {true, &clusterv1.MachineSetList{}},
		"machines, on deletion":    {true, &clusterv1.MachineList{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := cluster.DeepCopy()
			inner := clientWith(t, server.Namespace(t), given)
			if test.deleting {
				if err := inner.Delete(t.Context(), given); err != nil {
					t.Fatal(err)
				}
			}
			boom := errors.New("boom")
			c := interceptor.NewClient(inner, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if reflect.TypeOf(list) == reflect.TypeOf(test.list) {
						return boom
					}
					return c.List(ctx, list, options...)
				},
			})
			if err := inner.Get(t.Context(), client.ObjectKeyFromObject(given), given); err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Client: c, Workloads: workload.New(workload.Options{})}
			if _, err := r.Reconcile(t.Context(), given.DeepCopy()); !errors.Is(err, boom) {
				t.Fatalf("error is %v, want %v", err, boom)
			}
			got := &clusterv1.Cluster{}
			if err := inner.Get(t.Context(), client.ObjectKeyFromObject(given), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(cluster.Finalizers, got.Finalizers); diff != "" {
				t.Errorf("finalizers: %s", diff)
			}
			if diff := cmp.Diff(cluster.Status.Workers, got.Status.Workers); diff != "" {
				t.Errorf("counters: %s", diff)
			}
		})
	}
}
