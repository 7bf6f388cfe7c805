// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/runtime/logtest"
)

// TestLogOfALifecycle has one line for each change of the cloud, none for a retry and none for a reconcile without a
// change.
func TestLogOfALifecycle(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{BootReads: 2, DeleteReads: 1})
	recorder := &logtest.Recorder{}
	r.log = recorder.Logger()
	machine, _ := r.machine("worker")
	want := func(what string, lines ...string) {
		t.Helper()
		const keys = `"Cluster"={"name"="home" "namespace"="NAMESPACE"} "Machine"={"name"="worker" "namespace"="NAMESPACE"}`
		var all []string
		for _, line := range lines {
			message, values, _ := strings.Cut(line, " | ")
			all = append(all, strings.TrimSpace(`"level"=0 "msg"="`+message+`" `+keys+" "+values))
		}
		got := recorder.Take()
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], r.home.Namespace, "NAMESPACE")
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	full := true
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "create" && full {
			return fake.Fault{Err: &driver.InsufficientCapacityError{InstanceType: "small", Zone: "z", Err: errors.New("full")}}
		}
		return fake.Fault{}
	}
	for range 4 {
		_, _ = r.reconcile(machine)
	}
	want("creation refused, and tried again", `added account`,
		`creation refused for capacity | "reason"="InsufficientCapacity" "message"="creating instance: no capacity for \"small\" in \"z\": full; wait, or use another instance type or zone"`)
	full = false
	r.ready(machine)
	want("creation until it runs",
		`created instance | "providerID"="fake:////i-000001" "phase"="Pending"`,
		`instance state changed | "providerID"="fake:////i-000001" "phase"="Running" "previousPhase"="Pending"`)
	r.settle(machine)
	want("nothing changed")
	r.cloud.Set(machine.UID, func(instance *driver.Instance) { instance.State = driver.Stopped })
	r.settle(machine)
	want("stopped by others",
		`instance state changed | "providerID"="fake:////i-000001" "phase"="Stopped" "previousPhase"="Running" "reason"="InstanceStopped" "message"="the instance does not run; start it or delete the Machine"`)
	r.cloud.Set(machine.UID, func(instance *driver.Instance) { instance.State = driver.Running })
	r.settle(machine)
	recorder.Take()
	r.delete(machine)
	r.settle(machine)
	want("deletion", `deleted instance | "providerID"="fake:////i-000001"`)
}
