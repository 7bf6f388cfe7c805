// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

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
