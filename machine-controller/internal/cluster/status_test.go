// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/logtest"
)

func TestManagementClaimed(t *testing.T) {
	t.Parallel()
	claimed := func(status workload.ClaimStatus) workload.State {
		return workload.State{Connected: true, Claim: workload.Claim{Status: status, Message: "m"}}
	}
	for name, test := range map[string]struct {
		connection workload.State
		want       summary
	}{
		"is true while the claim is held":                {claimed(workload.ClaimHeld), summary{"True", droverpolicyv1.ClaimedReason, "m"}},
		"is false while another cluster holds the claim": {claimed(workload.ClaimForeign), summary{"False", droverpolicyv1.ClaimedElsewhereReason, "m"}},
		"is false without the permission":                {claimed(workload.ClaimForbidden), summary{"False", droverpolicyv1.ClaimForbiddenReason, "m"}},
		"is unknown after a failed attempt to connect": {workload.State{Reason: workload.ReasonUnreachable},
			summary{"Unknown", droverpolicyv1.NotClaimedYetReason, "Waiting for the first connection to the workload cluster since machine-controller started"}},
		"is unknown after a failed attempt to claim":        {claimed(workload.ClaimUnknown), summary{"Unknown", droverpolicyv1.NotClaimedYetReason, "m"}},
		"stays as it is before the first attempt has ended": {workload.State{Reason: workload.ReasonConnecting}, summary{"True", "Before", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{cluster: &clusterv1.Cluster{}, connection: test.connection}
			conditions.Set(s.cluster, metav1.Condition{Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionTrue, Reason: "Before"})
			setClaimed(s)
			if got := summaryOf(*conditions.Get(s.cluster, droverpolicyv1.ManagementClaimedCondition)); got != test.want {
				t.Errorf("condition %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestUrgent(t *testing.T) {
	t.Parallel()
	set := func(kind string, status metav1.ConditionStatus) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			conditions.Set(c, metav1.Condition{Type: kind, Status: status, Reason: "r"})
		}
	}
	replicas := func(desired, all int32) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Status.Workers = &clusterv1.WorkersStatus{DesiredReplicas: &desired, Replicas: &all, ReadyReplicas: &all, AvailableReplicas: &all, UpToDateReplicas: &all}
		}
	}
	nothing := func(*clusterv1.Cluster) {}
	for name, test := range map[string]struct {
		before, after func(*clusterv1.Cluster)
		want          bool
	}{
		"is not an equal status":                        {nothing, nothing, false},
		"is a new generation":                           {nothing, func(c *clusterv1.Cluster) { c.Status.ObservedGeneration = 2 }, true},
		"is another phase":                              {nothing, func(c *clusterv1.Cluster) { c.Status.Phase = "Deleting" }, true},
		"is an initialized control plane":               {nothing, func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }, true},
		"is a lost connection":                          {set(clusterv1.ClusterRemoteConnectionProbeCondition, "True"), set(clusterv1.ClusterRemoteConnectionProbeCondition, "False"), true},
		"is not a condition that sums up the workers":   {set(clusterv1.ClusterWorkerMachinesReadyCondition, "True"), set(clusterv1.ClusterWorkerMachinesReadyCondition, "False"), false},
		"is not one that sums up the control plane":     {set(clusterv1.ClusterControlPlaneMachinesReadyCondition, "True"), set(clusterv1.ClusterControlPlaneMachinesReadyCondition, "Unknown"), false},
		"is not one more replica":                       {replicas(5, 1), replicas(5, 2), false},
		"is the last replica":                           {replicas(5, 4), replicas(5, 5), true},
		"is the first replica of too few":               {replicas(5, 5), replicas(5, 4), true},
		"is not a replica less where some were missing": {replicas(5, 3), replicas(5, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.Cluster{}, &clusterv1.Cluster{}
			test.before(before)
			test.after(after)
			if got := urgent(before, after); got != test.want {
				t.Errorf("urgent is %t", got)
			}
		})
	}
}

// TestControlPlaneStatus is stored by an API server each time, which refuses what a status cannot have.
func TestControlPlaneStatus(t *testing.T) {
	t.Parallel()
	m := machine("m", "", nil, clusterv1.MachineReadyCondition)
	m.Spec.Version = "v1.36.0"
	counted := &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: new(int32(1)), Replicas: new(int32(1)), ReadyReplicas: new(int32(1)), AvailableReplicas: new(int32(0)), UpToDateReplicas: new(int32(0)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 1}},
	}
	var many []any
	for i := range 40 {
		many = append(many, map[string]any{"version": fmt.Sprintf("v1.36.%d", i), "replicas": int64(1)})
	}
	for name, test := range map[string]struct {
		object   map[string]any
		machines []*clusterv1.Machine
		want     *clusterv1.ClusterControlPlaneStatus
	}{
		"is what the object reports": {
			map[string]any{"replicas": int64(3), "readyReplicas": int64(2), "versions": []any{map[string]any{"version": "v1.37.0"}}}, []*clusterv1.Machine{m},
			&clusterv1.ClusterControlPlaneStatus{Replicas: new(int32(3)), ReadyReplicas: new(int32(2)), Versions: []clusterv1.StatusVersion{{Version: "v1.37.0"}}},
		},
		"is that of the Machines where the object reports none":    {map[string]any{}, []*clusterv1.Machine{m}, counted},
		"is that of the Machines where there is no object":         {nil, []*clusterv1.Machine{m}, counted},
		"is none where the object reports none, and has none":      {map[string]any{}, nil, nil},
		"is none once the object and all of its Machines are gone": {nil, nil, nil},
		"has no more versions than it can have":                    {map[string]any{"versions": many}, nil, &clusterv1.ClusterControlPlaneStatus{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := server.Namespace(t)
			api := clientWith(t, namespace, testenv.Cluster(namespace))
			before := &clusterv1.Cluster{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: testenv.Cluster(namespace).Name}, before); err != nil {
				t.Fatal(err)
			}
			before.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Replicas: new(int32(7))}
			if err := api.Status().Update(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			clock := testingclock.NewFakePassiveClock(time.Now())
			r := &Reconciler{Client: api, Live: api, Workloads: workload.New(workload.Options{}), Events: events.NewFakeRecorder(10), Clock: clock}
			s := &state{cluster: before.DeepCopy(), workers: workers{controlPlane: test.machines}}
			if test.object != nil {
				s.controlPlane = plane(test.object)
			}
			r.setStatus(s)
			if _, err := statuswriter.New(api, clock).Write(t.Context(), before, s.cluster, true); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
				t.Fatal(err)
			}
			got := before.Status.ControlPlane
			if test.want != nil && test.want.Versions == nil {
				if len(got.Versions) != 32 {
					t.Errorf("%d versions", len(got.Versions))
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestReconcile follows a Cluster without references from its creation to its deletion.
func TestReconcile(t *testing.T) {
	t.Parallel()
	namespace, log := server.Namespace(t), &logtest.TextRecorder{}
	clock := testingclock.NewFakePassiveClock(time.Now())
	cluster := testenv.Cluster(namespace)
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	api := clientWith(t, namespace, cluster)
	r := &Reconciler{Client: api, Live: api, Workloads: workload.New(workload.Options{}), Events: events.NewFakeRecorder(10), Clock: clock}
	r.setPhases("")
	r.statusWriter, r.resyncs.Clock = statuswriter.New(api, clock), clock
	reconcile := func() {
		t.Helper()
		if err := server.Client(t).Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(log.Context(t.Context()), cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	reconcile() // nothing has changed
	if err := server.Client(t).Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) || len(cluster.Finalizers) != 1 || conditions.IsTrue(cluster, clusterv1.ClusterAvailableCondition) {
		t.Errorf("phase %q, finalizers %v, conditions %+v", cluster.Status.Phase, cluster.Finalizers, cluster.Status.Conditions)
	}
	if err := server.Client(t).Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if err := server.Client(t).Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Cluster is left: %v", err)
	}
	var logged []string
	for _, line := range log.Lines("") {
		if line != "" && line[0] != 'm' { // no warning about metadata.finalizers
			logged = append(logged, line)
		}
	}
	want := []string{"Cluster infrastructure provisioned", "Cluster phase changed phase=Provisioned previousPhase=", "deleted Cluster"}
	if len(logged) != len(want) {
		t.Fatalf("log %v, want %v", logged, want)
	}
	for i := range want {
		if logged[i] != want[i] {
			t.Errorf("line %d is %q, want %q", i, logged[i], want[i])
		}
	}
}
