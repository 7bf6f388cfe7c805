// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload"
)

var (
	epoch    = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	notFound = apierrors.NewNotFound(corev1.Resource("things"), "x")
)

// deleting is a Machine that is being deleted, whose Node and InfraMachine exist.
func deleting(changes ...func(*State)) *State {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m-uid", DeletionTimestamp: new(metav1.NewTime(epoch))}}
	m.Spec.ClusterName, m.Spec.ProviderID, m.Status.NodeRef.Name = "c", "sim://1", "n"
	s := &State{
		Machine:        m,
		Cluster:        &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c-uid"}},
		Infrastructure: Object{Unstructured: object(m)},
		Node:           &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		Disconnected:   "Not connected to the workload cluster yet",
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// object is an object of a provider that the Machine controls.
func object(m *clusterv1.Machine, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetNamespace("ns")
	o.SetName("x")
	o.SetUID("x-uid")
	o.SetResourceVersion("7")
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))})
	for _, change := range changes {
		change(o)
	}
	return o
}

func TestOwner(t *testing.T) {
	t.Parallel()
	md, set := &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}
	tests := map[string]struct {
		state State
		want  client.Object
	}{
		"is the MachineDeployment":                      {State{Deployment: md, MachineSet: set}, md},
		"is the MachineSet without a MachineDeployment": {State{MachineSet: set}, set},
		"is nothing for a stand-alone Machine":          {State{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.state.owner(); got != test.want {
				t.Errorf("owner is %T, want %T", got, test.want)
			}
		})
	}
}

func TestNeedsDrain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*State)
		want   bool
	}{
		"is true for a Node that exists":                          {func(*State) {}, true},
		"is true for a Node that cannot be read now":              {func(s *State) { s.Node, s.NodeErr = nil, workload.ErrNotConnected }, true},
		"is true for a Node without a nodeRef":                    {func(s *State) { s.Machine.Status.NodeRef.Name = "" }, true},
		"is true while it is unknown whether the instance exists": {func(s *State) { s.Infrastructure = Object{Err: errors.New("boom")} }, true},
		"is true while it is not known whether a Node joined":     {func(s *State) { s.Machine.Status.NodeRef.Name, s.Node, s.Connecting = "", nil, true }, true},
		"is false before a Node joined":                           {func(s *State) { s.Machine.Status.NodeRef.Name, s.Node = "", nil }, false},
		"is false after the Node was deleted":                     {func(s *State) { s.Node, s.NodeErr = nil, notFound }, false},
		"is false when the Cluster is deleted":                    {func(s *State) { s.Cluster.DeletionTimestamp = new(metav1.NewTime(epoch)) }, false},
		"is false when the control plane is deleted":              {func(s *State) { s.ControlPlaneDeleting = true }, false},
		"is false when the providerID is another Machine's":       {func(s *State) { s.ProviderIDConflict = true }, false},
		"is false when the InfraMachine is gone":                  {func(s *State) { s.Infrastructure = Object{Err: notFound} }, false},
		"is false when the InfraMachine is being deleted":         {func(s *State) { s.Infrastructure.SetDeletionTimestamp(new(metav1.NewTime(epoch))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := deleting(test.change).needsDrain(); got != test.want {
				t.Errorf("needsDrain is %t, want %t", got, test.want)
			}
		})
	}
}

func TestTimedOut(t *testing.T) {
	t.Parallel()
	started := metav1.NewTime(epoch)
	for name, test := range map[string]struct {
		started metav1.Time
		seconds *int32
		passed  time.Duration
		want    bool
		left    time.Duration
	}{
		"never without a timeout":     {started, nil, time.Hour, false, 0},
		"never with a timeout of 0":   {started, new(int32(0)), time.Hour, false, 0},
		"not before it started":       {metav1.Time{}, new(int32(5)), time.Hour, false, time.Second},
		"not before its time":         {started, new(int32(5)), 3 * time.Second, false, 2 * time.Second},
		"when its time is over":       {started, new(int32(5)), 5 * time.Second, true, time.Second},
		"no sooner than a second off": {started, new(int32(5)), 4900 * time.Millisecond, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := epoch.Add(test.passed)
			if got := timedOut(test.started, test.seconds, now); got != test.want {
				t.Errorf("timedOut is %t, want %t", got, test.want)
			}
			if got := untilTimeout(test.started, test.seconds, now); got != test.left {
				t.Errorf("runs for another %s, want %s", got, test.left)
			}
		})
	}
}
