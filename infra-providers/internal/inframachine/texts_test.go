// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestTextsOfACloudDoNotStopTheStatus has in each text that a cloud chooses more than the API server accepts, or what is no text.
func TestTextsOfACloudDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]string{
		"longer than the schema permits": strings.Repeat("x", 5000),
		"longer than an object may be":   strings.Repeat("x", 4<<20),
		"no UTF-8":                       strings.Repeat("\xff", 200),
		"of characters of several bytes": strings.Repeat("€", 200),
		"control characters":             strings.Repeat("\x00\n", 100),
	} {
		given := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: long}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			r.settle(machine)
			for field, change := range map[string]func(*driver.Instance){
				"failure domain":    func(i *driver.Instance) { i.FailureDomain = long },
				"addresses":         func(i *driver.Instance) { i.Addresses = []clusterv1.MachineAddress{given, given} },
				"reported address":  func(i *driver.Instance) { i.Reported = []clusterv1.MachineAddress{given, given} },
				"message":           func(i *driver.Instance) { i.Message = long },
				"eviction":          func(i *driver.Instance) { i.Eviction = long },
				"report of a guest": func(i *driver.Instance) { i.Guest = &driver.Guest{Failed: true, Message: long} },
			} {
				for _, state := range []driver.State{driver.Running, driver.Stopping, driver.Stopped} {
					r.cloud.Set(machine.UID, func(i *driver.Instance) {
						change(i)
						i.State = state
					})
					if _, err := r.reconcile(machine); err != nil || machine.Status.InstanceState != string(state) {
						t.Errorf("%s: the instance is %s, and the status has %s: %.300v", field, state, machine.Status.InstanceState, err)
					}
				}
			}
			r.delete(machine)
			r.settle(machine)
			r.wantGone(machine)
		})
	}
}

// TestLongNameOfAnAccount is not stored, and the condition has the reason.
func TestLongNameOfAnAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{Account: strings.Repeat("x", 513)})
	machine, _ := r.machine("worker")
	r.reconcileIgnoringErrors(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.CloudErrorReason)
	r.wantMessage(machine, "513")
	r.wantInCloud(0)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
}

// TestLongProviderID is not stored, the condition has the reason, and the instance is deleted with the machine.
func TestLongProviderID(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	lose := true
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "create" && lose {
			return fake.Fault{Err: fake.ErrLost, Lost: true}
		}
		return fake.Fault{}
	}
	machine, _ := r.machine("worker")
	r.reconcileIgnoringErrors(machine)
	lose = false
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.ProviderID = strings.Repeat("x", 4<<20) })
	r.reconcileIgnoringErrors(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.CloudErrorReason)
	r.wantMessage(machine, "providerID")
	r.wantInCloud(1)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}

// TestLongUIDAfterARestore is of an instance whose tags have the machine's name and Cluster.
func TestLongUIDAfterARestore(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.Identity.UID = types.UID(strings.Repeat("x", 1<<20)) })
	r.update(machine, func() { delete(machine.Annotations, infrav1.IdentityAnnotation) })
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
}

// TestStatusIsTheSameForEveryCloud, and so what the API server accepts of one it accepts of each.
func TestStatusIsTheSameForEveryCloud(t *testing.T) {
	t.Parallel()
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, definition := range definitions {
		if kind := definition.Spec.Names.Kind; definition.Spec.Group == infrav1.GroupVersion.Group && strings.HasSuffix(kind, "Machine") {
			statuses[kind] = definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
		}
	}
	for kind, status := range statuses {
		if diff := cmp.Diff(statuses["SimMachine"], status); diff != "" {
			t.Errorf("the status of %s is another:\n%s", kind, diff)
		}
	}
	if len(statuses) < 10 {
		t.Errorf("%d kinds of machines are known", len(statuses))
	}
}

// reconcileIgnoringErrors reconciles until the cloud has been called.
func (r *fixture) reconcileIgnoringErrors(machine *infrav1.SimMachine) {
	r.t.Helper()
	for range 5 {
		_, _ = r.reconcile(machine)
	}
}
