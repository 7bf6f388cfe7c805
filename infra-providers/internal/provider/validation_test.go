// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

func TestSimMachineIsDefaulted(t *testing.T) {
	t.Parallel()
	machine := simMachine(t, infrav1.SimMachineSpec{})
	want := infrav1.SimMachineSpec{InstanceType: "small", BootDelaySeconds: ptr.To[int32](0)}
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestSimMachineSpecIsImmutable proves the CEL rules: field by field, added, changed and removed.
func TestSimMachineSpecIsImmutable(t *testing.T) {
	t.Parallel()
	full := infrav1.SimMachineSpec{Zone: "zone-a", Faults: infrav1.SimFaults{NeverJoins: ptr.To(true)}, ProviderID: "sim:///zone-a/x"}
	for name, test := range map[string]struct {
		from   infrav1.SimMachineSpec
		change func(*infrav1.SimMachineSpec)
		refuse string
	}{
		"lets providerID be set":   {infrav1.SimMachineSpec{}, func(s *infrav1.SimMachineSpec) { s.ProviderID = "sim:///zone-a/x" }, ""},
		"keeps providerID":         {full, func(s *infrav1.SimMachineSpec) { s.ProviderID = "sim:///zone-a/y" }, "providerID is set once"},
		"does not drop providerID": {full, func(s *infrav1.SimMachineSpec) { s.ProviderID = "" }, "providerID is set once"},
		"keeps instanceType":       {full, func(s *infrav1.SimMachineSpec) { s.InstanceType = "large" }, "instanceType is immutable"},
		"keeps bootDelaySeconds":   {full, func(s *infrav1.SimMachineSpec) { s.BootDelaySeconds = ptr.To[int32](9) }, "bootDelaySeconds is immutable"},
		"keeps zone":               {full, func(s *infrav1.SimMachineSpec) { s.Zone = "zone-b" }, "zone is immutable"},
		"does not drop zone":       {full, func(s *infrav1.SimMachineSpec) { s.Zone = "" }, "zone is immutable"},
		"does not add zone":        {infrav1.SimMachineSpec{}, func(s *infrav1.SimMachineSpec) { s.Zone = "zone-b" }, "zone is immutable"},
		"keeps faults":             {full, func(s *infrav1.SimMachineSpec) { s.Faults.NeverJoins = ptr.To(false) }, "faults are immutable"},
		"does not drop faults":     {full, func(s *infrav1.SimMachineSpec) { s.Faults = infrav1.SimFaults{} }, "faults are immutable"},
		"does not add faults":      {infrav1.SimMachineSpec{}, func(s *infrav1.SimMachineSpec) { s.Faults.CreateError = "no" }, "faults are immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := simMachine(t, test.from)
			test.change(&machine.Spec)
			testenv.WantRefusal(t, cluster.Client.Update(t.Context(), machine), test.refuse)
		})
	}
}

func TestSimMachineValidation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   infrav1.SimMachineSpec
		refuse string
	}{
		"an unknown type":  {infrav1.SimMachineSpec{InstanceType: "huge"}, "spec.instanceType"},
		"a zone with dots": {infrav1.SimMachineSpec{Zone: "a.b"}, "spec.zone"},
		"a negative delay": {infrav1.SimMachineSpec{BootDelaySeconds: ptr.To[int32](-1)}, "spec.bootDelaySeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: test.spec}
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

func TestSimMachineTemplateIsImmutable(t *testing.T) {
	t.Parallel()
	template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "t"}}
	template.Spec.Template.Spec.Zone = "zone-a"
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	edited := template.DeepCopy()
	edited.Spec.Template.Spec.InstanceType = "large"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), edited), "create a SimMachineTemplate of another name")
	edited = template.DeepCopy()
	edited.Labels = map[string]string{"a": "b"}
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), edited), "")
}

func TestSimMachineTemplateHasNoProviderID(t *testing.T) {
	t.Parallel()
	template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "t"}}
	template.Spec.Template.Spec.ProviderID = "sim:///a/b"
	testenv.WantRefusal(t, cluster.Client.Create(t.Context(), template), "belongs to one machine")
}

// TestSimMachineFinalizerCanAlwaysBeRemoved: deleting is never refused because of validation.
func TestSimMachineFinalizerCanAlwaysBeRemoved(t *testing.T) {
	t.Parallel()
	machine := simMachine(t, infrav1.SimMachineSpec{Zone: "zone-a"})
	machine.Finalizers = []string{infrav1.MachineFinalizer}
	if err := cluster.Client.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	before := machine.DeepCopy()
	machine.Finalizers = nil
	if err := cluster.Client.Patch(t.Context(), machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if !gone(machine) {
		t.Error("the machine is still there")
	}
}

func simMachine(t *testing.T, spec infrav1.SimMachineSpec) *infrav1.SimMachine {
	t.Helper()
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: spec}
	if err := cluster.Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

// namespace is one that no provider of another test would touch: its machines have no owner.
func namespace(t *testing.T) string {
	t.Helper()
	name, err := cluster.Namespace(t.Context(), "rules")
	if err != nil {
		t.Fatal(err)
	}
	return name
}
