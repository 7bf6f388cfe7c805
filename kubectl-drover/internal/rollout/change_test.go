// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// full is a MachineDeployment with every field of its template.
func full() *clusterv1.MachineDeployment {
	return deployment(func(md *clusterv1.MachineDeployment) {
		md.Status.Replicas = new(int32(4))
		md.Spec.Template.Labels, md.Spec.Template.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		spec := &md.Spec.Template.Spec
		spec.Version, spec.FailureDomain, spec.MinReadySeconds = "v1.36.2", "zone-a", new(int32(10))
		spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.drover.io", Kind: "BootstrapConfigTemplate", Name: "b"}
		spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachineTemplate", Name: "i"}
		spec.Deletion.NodeDrainTimeoutSeconds = new(int32(600))
		spec.Taints = []clusterv1.MachineTaint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways}}
		spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	})
}

// TestCompareEachField changes one field of a template at a time: it replaces all Machines, or is changed on them, and never both.
func TestCompareEachField(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*clusterv1.MachineSpec)
		why     string
		inPlace string
	}{
		"nothing":                      {func(*clusterv1.MachineSpec) {}, "", ""},
		"version":                      {func(s *clusterv1.MachineSpec) { s.Version = "v1.36.3" }, `spec.version is "v1.36.2", would be "v1.36.3"`, ""},
		"version without its prefix":   {func(s *clusterv1.MachineSpec) { s.Version = "1.36.2" }, "", ""},
		"version that is removed":      {func(s *clusterv1.MachineSpec) { s.Version = "" }, `spec.version is "v1.36.2", would be ""`, ""},
		"failure domain":               {func(s *clusterv1.MachineSpec) { s.FailureDomain = "zone-b" }, `spec.failureDomain is "zone-a", would be "zone-b"`, ""},
		"bootstrap by name":            {func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.Name = "b2" }, `spec.bootstrap.configRef is "BootstrapConfigTemplate.bootstrap.drover.io/b", would be "BootstrapConfigTemplate.bootstrap.drover.io/b2"`, ""},
		"bootstrap by group":           {func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.APIGroup = "example.org" }, `spec.bootstrap.configRef is "BootstrapConfigTemplate.bootstrap.drover.io/b", would be "BootstrapConfigTemplate.example.org/b"`, ""},
		"infrastructure by kind":       {func(s *clusterv1.MachineSpec) { s.InfrastructureRef.Kind = "AWSMachineTemplate" }, `spec.infrastructureRef is "SimMachineTemplate.infrastructure.drover.io/i", would be "AWSMachineTemplate.infrastructure.drover.io/i"`, ""},
		"a Secret instead of a config": {func(s *clusterv1.MachineSpec) { s.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("data")} }, `spec.bootstrap.configRef is "BootstrapConfigTemplate.bootstrap.drover.io/b", would be ""|spec.bootstrap.dataSecretName is "", would be "data"`, ""},
		"minReadySeconds":              {func(s *clusterv1.MachineSpec) { s.MinReadySeconds = nil }, "", "spec.minReadySeconds"},
		"deletion":                     {func(s *clusterv1.MachineSpec) { s.Deletion.NodeDeletionTimeoutSeconds = new(int32(1)) }, "", "spec.deletion"},
		"taints":                       {func(s *clusterv1.MachineSpec) { s.Taints[0].Value = "w" }, "", "spec.taints"},
		"readiness gates":              {func(s *clusterv1.MachineSpec) { s.ReadinessGates = nil }, "", "spec.readinessGates"},
		"the Cluster's own copy":       {func(s *clusterv1.MachineSpec) { s.ClusterName = "other" }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is, want := full(), full()
			test.change(&want.Spec.Template.Spec)
			got := Compare(is, want)
			if strings.Join(got.Why, "|") != test.why || strings.Join(got.InPlace, "|") != test.inPlace || (got.Replaced == 4) != (test.why != "") || test.why == "" && got.Replaced != 0 {
				t.Errorf("got %+v", got)
			}
			if back := Compare(want, is); len(back.Why) != len(got.Why) || len(back.InPlace) != len(got.InPlace) {
				t.Errorf("the other way round: %+v", back)
			}
		})
	}
	for path, change := range map[string]func(*clusterv1.MachineDeployment){
		"metadata.labels":      func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels = nil },
		"metadata.annotations": func(md *clusterv1.MachineDeployment) { md.Spec.Template.Annotations["e"] = "f" },
	} {
		want := full()
		change(want)
		if got := Compare(full(), want); got.Replaced != 0 || strings.Join(got.InPlace, "") != path {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestCompareEmptyIsLikeNone has maps and lists that are empty in one version and absent in the other, as after a decoding.
func TestCompareEmptyIsLikeNone(t *testing.T) {
	t.Parallel()
	is, want := deployment(func(*clusterv1.MachineDeployment) {}), deployment(func(*clusterv1.MachineDeployment) {})
	want.Spec.Template.Labels, want.Spec.Template.Annotations = map[string]string{}, map[string]string{}
	want.Spec.Template.Spec.Taints, want.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineTaint{}, []clusterv1.MachineReadinessGate{}
	if got := Compare(is, want); len(got.InPlace)+len(got.Why) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestTextOfAChange has each sentence that a change can be.
func TestTextOfAChange(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]Change{
		"MachineDeployment a: it would be created, with 3 Machines\n":                                                                       {Name: "a", New: true, To: 3},
		"MachineDeployment a: no Machine would be replaced\n":                                                                               {Name: "a", From: 3, To: 3},
		"MachineDeployment a: no Machine would be replaced, replicas from 3 to 0\n":                                                         {Name: "a", From: 3},
		"MachineDeployment a: 3 Machines would be replaced\n  x\n  y\n":                                                                     {Name: "a", From: 3, To: 3, Replaced: 3, Why: []string{"x", "y"}},
		"MachineDeployment a: 0 Machines would be replaced, replicas from 0 to 2\n  x\n":                                                    {Name: "a", To: 2, Why: []string{"x"}},
		"MachineDeployment a: 3 Machines would be replaced, each after it is deleted (OnDelete)\n  x\n":                                     {Name: "a", From: 3, To: 3, Replaced: 3, Why: []string{"x"}, OnDelete: true},
		"MachineDeployment a: no Machine would be replaced\n  changed on every Machine without a replacement: spec.taints, spec.deletion\n": {Name: "a", From: 3, To: 3, OnDelete: true, InPlace: []string{"spec.taints", "spec.deletion"}},
		"MachineDeployment a: 3 Machines would be replaced\n  x\n  changed on every Machine without a replacement: spec.taints\n":           {Name: "a", From: 3, To: 3, Replaced: 3, Why: []string{"x"}, InPlace: []string{"spec.taints"}},
	} {
		if diff := cmp.Diff(want, change.Text()); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
}

// TestStateHasAnOrder adds what is more urgent, one after another, to a MachineDeployment that is rolled out.
func TestStateHasAnOrder(t *testing.T) {
	t.Parallel()
	md := deployment(func(*clusterv1.MachineDeployment) {})
	add := func(condition string, status metav1.ConditionStatus) func() {
		return func() {
			md.Status.Conditions = append(md.Status.Conditions, metav1.Condition{Type: condition, Status: status, Message: "message of " + condition})
		}
	}
	for _, step := range []struct {
		change   func()
		want     string
		complete bool
		failed   bool
	}{
		{func() {}, "is rolled out", true, false},
		{add("Available", metav1.ConditionFalse), "is rolled out", true, false},
		{func() { md.Status.AvailableReplicas = new(int32(1)) }, "3 of 3 Machines are up to date, 1 available", false, false},
		{add(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue), "message of RollingOut", false, false},
		{add(droverpolicyv1.ProgressingCondition, metav1.ConditionFalse), "message of Progressing", false, true},
		{add(droverpolicyv1.RolledBackCondition, metav1.ConditionFalse), "message of RolledBack", false, true},
		{func() { md.Generation = 3 }, "Waiting for the newest spec", false, false},
		{func() { md.Annotations = map[string]string{RollbackAnnotation: "2"} }, "earlier revision to be restored", false, false},
		{add(clusterv1.PausedCondition, metav1.ConditionTrue), "message of Paused", false, false},
	} {
		step.change()
		if got := StateOf(md); !strings.Contains(got.Text, step.want) || got.Complete != step.complete || got.Failed != step.failed || strings.Contains(got.Text, "\n") {
			t.Errorf("got %+v, want %q", got, step.want)
		}
	}
}

// TestConditionsThatAreWellChangeNothing has each condition with the status in which it reports no problem.
func TestConditionsThatAreWellChangeNothing(t *testing.T) {
	t.Parallel()
	want := StateOf(deployment(func(*clusterv1.MachineDeployment) {}))
	for condition, statuses := range map[string][]metav1.ConditionStatus{
		clusterv1.PausedCondition: {"False", "Unknown"}, droverpolicyv1.RolledBackCondition: {"True", "Unknown"}, droverpolicyv1.ProgressingCondition: {"True", "Unknown"},
		clusterv1.MachineDeploymentRollingOutCondition: {"False", "Unknown"}, "OfAnotherProject": {"True", "False"},
	} {
		for _, status := range statuses {
			md := deployment(func(md *clusterv1.MachineDeployment) {
				md.Status.Conditions = []metav1.Condition{{Type: condition, Status: status, Message: "m"}}
			})
			if got := StateOf(md); got != want {
				t.Errorf("%s %s: got %+v", condition, status, got)
			}
		}
	}
}

// TestHistoryIsWholeOrAnError has a list of MachineSets that is refused, or breaks off.
func TestHistoryIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	md := deployment(func(md *clusterv1.MachineDeployment) { md.Namespace = "n" })
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, "", errors.New("no rule"))
	for _, fails := range []int{1, 2} {
		pages := 0
		r := objecttest.Reader(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if pages++; pages == fails {
				return forbidden
			}
			list.SetContinue("more")
			return nil
		}})
		if _, err := History(t.Context(), r, md); !object.IsForbidden(err) {
			t.Errorf("page %d: error %v", fails, err)
		}
	}
}

// TestRevisionsThatAreNoNumbers has annotations that somebody else wrote: they do not end the command, and are not current.
func TestRevisionsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	md := deployment(func(md *clusterv1.MachineDeployment) {
		md.Namespace, md.UID, md.Annotations = "n", "uid", map[string]string{clusterv1.RevisionAnnotation: "3"}
	})
	var sets []client.Object
	for name, revision := range map[string]string{"a": "two", "b": "3", "c": "", "d": "12", "e": "9223372036854775807"} {
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision}}}
		set.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineDeployment", Name: md.Name, UID: "uid", Controller: new(true)}}
		sets = append(sets, set)
	}
	got, err := History(t.Context(), objecttest.Reader(t, interceptor.Funcs{}, sets...), md)
	if err != nil || len(got.Revisions) != 5 {
		t.Fatalf("got %+v, error %v", got, err)
	}
	for i, r := range got.Revisions {
		if r.Current != (r.MachineSet == "b") {
			t.Errorf("%s is current: %t", r.MachineSet, r.Current)
		}
		if i > 0 && r.Revision > got.Revisions[i-1].Revision {
			t.Errorf("revision %d comes after %d", r.Revision, got.Revisions[i-1].Revision)
		}
	}
}
