// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/logtest"
)

func TestLogWritten(t *testing.T) {
	t.Parallel()
	finalizer := func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer, "other"} }
	nothing := func(*clusterv1.Machine) {}
	for name, test := range map[string]struct {
		before, after func(*clusterv1.Machine)
		want          []string
	}{
		"logs nothing without a change":     {finalizer, finalizer, nil},
		"logs the providerID":               {nothing, func(m *clusterv1.Machine) { m.Spec.ProviderID = "sim://1" }, []string{"set providerID providerID=sim://1"}},
		"logs the deletion":                 {finalizer, func(m *clusterv1.Machine) { m.Finalizers = []string{"other"} }, []string{"deleted Machine"}},
		"does not log another finalizer":    {finalizer, func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer} }, nil},
		"does not log a finalizer that was": {nothing, finalizer, nil},
		"logs that the Node joined": {nothing, func(m *clusterv1.Machine) { m.Status.NodeRef.Name, m.Spec.ProviderID = "n", "" },
			[]string{"Node joined Node=n providerID="}},
		"does not log a Node that was known": {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, nil},
		"logs the phase": {func(m *clusterv1.Machine) { m.Status.Phase = "Pending" }, func(m *clusterv1.Machine) { m.Status.Phase = "Running" },
			[]string{"Machine phase changed phase=Running previousPhase=Pending"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after, recorder := &clusterv1.Machine{}, &clusterv1.Machine{}, &logtest.TextRecorder{}
			test.before(before)
			test.after(after)
			logWritten(recorder.Context(t.Context()), before, after)
			logStatusWritten(recorder.Context(t.Context()), before, after)
			if diff := cmp.Diff(test.want, recorder.Lines("")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithLogger(t *testing.T) {
	t.Parallel()
	recorder := &logtest.TextRecorder{}
	s := deletingState(func(s *state) {
		s.set = &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
		s.deployment = &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
	})
	before := s.machine.DeepCopy()
	s.machine.Status.Phase = "Deleting"
	logStatusWritten(withLogger(recorder.Context(t.Context()), s), before, s.machine)
	want := []string{"Machine phase changed Cluster=ns/c MachineDeployment=ns/d MachineSet=ns/s phase=Deleting previousPhase="}
	if diff := cmp.Diff(want, recorder.Lines("")); diff != "" {
		t.Error(diff)
	}
}
