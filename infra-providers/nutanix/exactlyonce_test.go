// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

// patiently creates an instance with as many calls as that takes, also after failures.
func patiently(t *testing.T, d driver.Driver[nutanix.InstanceConfig], req driver.CreateRequest[nutanix.InstanceConfig]) driver.Instance {
	t.Helper()
	var err error
	for range 100 {
		var created driver.Instance
		if created, err = d.Create(t.Context(), req); err == nil {
			return created
		}
	}
	t.Fatal(err)
	return driver.Instance{}
}

// TestLostAnswersAreRepeatedWithTheSameToken: names are not unique and lists are late, so the token alone prevents a second
// virtual machine, also in a process without any memory, and with bootstrap data that has changed.
func TestLostAnswersAreRepeatedWithTheSameToken(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{TaskRequests: 2, ListDelay: 5})
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, withDisk))
			var err error
			for n := range 100 {
				w.cloud.FailNext(nutanixfake.Fault{Lost: true})
				req.UserData = append(req.UserData, byte('0'+n%10))
				if _, err = d.Create(t.Context(), req); err == nil {
					break
				}
				if restarts {
					d = w.connectRestarted(t)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if left := w.cloud.Leftovers(); len(left) != 1 {
				t.Errorf("%q exist, want one virtual machine", left)
			}
		})
	}
}

// TestConcurrentProcessesCreateOnce.
func TestConcurrentProcessesCreateOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 3, ListDelay: 2})
	req := newRequest(identity, newConfig(t, withDisk))
	var wait sync.WaitGroup
	for range 4 {
		d := w.connect(t)
		wait.Go(func() { patiently(t, d, req) })
	}
	wait.Wait()
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestRetryAfterTheTokenWasForgotten: the virtual machine is listed by then.
func TestRetryAfterTheTokenWasForgotten(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	req := newRequest(identity, newConfig(t, unchanged))
	d := w.connect(t)
	for w.cloud.Counts()["POST vms"] == 0 {
		if w.cloud.Counts()["POST categories"] > 0 {
			w.cloud.FailNext(nutanixfake.Fault{Lost: true})
		}
		if _, err := d.Create(t.Context(), req); err == nil {
			t.Fatal("the creation ended too early")
		}
	}
	w.cloud.Advance()
	w.cloud.ForgetTasks()
	w.clock.Advance(24 * time.Hour)
	patiently(t, w.connectRestarted(t), req)
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestEachAttemptHasAnotherToken: with the first one, Prism Central would answer with the first failure for ever. A process
// without memory passes the failures that it has not seen.
func TestEachAttemptHasAnotherToken(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for range 3 {
		w.cloud.FailNext(nutanixfake.Fault{Start: "NO_HOST_RESOURCES"})
		if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
		if left := w.cloud.Leftovers(); len(left) != 0 {
			t.Fatalf("%q exist after a refusal", left)
		}
	}
	for range 2 {
		w.cloud.FailNext(nutanixfake.Fault{Task: "VM_CREATE_FAILED", LeavesVM: true})
		if _, err := drivertest.Create(t, d, req); err == nil || driver.IsInsufficientCapacity(err) || driver.IsInvalidConfiguration(err) {
			t.Fatalf("got %v, want a transient error", err)
		}
		if left := w.cloud.Leftovers(); len(left) != 0 {
			t.Fatalf("%q exist after a failure", left)
		}
	}
	w.cloud.Age(time.Hour)
	if _, err := drivertest.Create(t, w.connectRestarted(t), req); err != nil {
		t.Errorf("creating in another process: %v", err)
	}
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestAbsenceIsNotConcludedFromAnEarlierAttempt: a process without memory repeats the first attempt of its predecessor, of which
// nothing is left, and no list has what a later attempt made.
func TestAbsenceIsNotConcludedFromAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]nutanixfake.Fault{
		"it was not created": {Task: "VM_CREATE_FAILED"},
		"it did not start":   {Start: "NO_HOST_RESOURCES"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
			d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
			w.cloud.FailNext(fault)
			if _, err := drivertest.Create(t, d, req); err == nil {
				t.Fatal("the first attempt did not fail")
			}
			w.cloud.HideNext(1000)
			patiently(t, d, req)
			d = w.connectRestarted(t)
			for n := range 20 {
				if n == 5 {
					w.clock.Advance(inflight.Window + time.Second)
				}
				if _, err := d.Get(t.Context(), identity); driver.IsNotFound(err) {
					t.Fatalf("before call %d of Create: %v", n, err)
				}
				_, _ = d.Create(t.Context(), req)
			}
			if left := w.cloud.Leftovers(); len(left) != 1 {
				t.Errorf("%q exist, want one virtual machine", left)
			}
		})
	}
}

// TestEarlierCreationThatFailsLater: a process without memory is answered with the task of its predecessor, which was begun long
// before and has not ended. What it leaves is deleted, though no list has it, before another attempt.
func TestEarlierCreationThatFailsLater(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 30, ReportsDoubles: true})
	req := newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(nutanixfake.Fault{Task: "VM_CREATE_FAILED", LeavesVM: true})
	w.cloud.HideNext(1000)
	for d := w.connect(t); w.cloud.Counts()["POST vms"] == 0; {
		if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
	}
	w.clock.Advance(inflight.Window + time.Minute)
	patiently(t, w.connectRestarted(t), req)
	w.cloud.Advance()
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestFailureIsReportedAfterALostAnswer: the task was begun, and ended, before the request that it is the answer to.
func TestFailureIsReportedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(nutanixfake.Fault{Task: "VM_CREATE_FAILED", Lost: true})
	for w.cloud.Counts()["POST vms"] == 0 {
		if _, err := d.Create(t.Context(), req); err == nil {
			t.Fatal("it was created")
		}
	}
	w.cloud.Advance()
	w.clock.Advance(inflight.Window / 2)
	if _, err := drivertest.Create(t, d, req); err == nil || !strings.Contains(err.Error(), "VM_CREATE_FAILED") {
		t.Errorf("got %v, want the failure of the task", err)
	}
}

// TestTokenOfWhatNoListHas: of a process that has seen failures and refusals, its successor knows nothing, and no list has what
// was requested last.
func TestTokenOfWhatNoListHas(t *testing.T) {
	t.Parallel()
	refusedAs := func(status int) func(*testing.T, env, driver.Driver[nutanix.InstanceConfig], driver.CreateRequest[nutanix.InstanceConfig]) {
		return func(t *testing.T, w env, d driver.Driver[nutanix.InstanceConfig], req driver.CreateRequest[nutanix.InstanceConfig]) {
			w.cloud.RefuseNextCreation(nutanixfake.Fault{Status: status, Group: "RETRYABLE_ERROR"})
			if _, err := drivertest.Create(t, d, req); err == nil {
				t.Fatal("it was created")
			}
		}
	}
	for name, before := range map[string]func(*testing.T, env, driver.Driver[nutanix.InstanceConfig], driver.CreateRequest[nutanix.InstanceConfig]){
		"after a throttled request": refusedAs(http.StatusTooManyRequests),
		"after a refusal":           refusedAs(http.StatusConflict),
		"after a shortage of another cluster": func(t *testing.T, _ env, d driver.Driver[nutanix.InstanceConfig], req driver.CreateRequest[nutanix.InstanceConfig]) {
			req.Config.Spec.Cluster = nutanixfake.FullCluster
			if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
				t.Fatalf("got %v, want an InsufficientCapacityError", err)
			}
		},
		"after a shortage of the same cluster": func(t *testing.T, w env, d driver.Driver[nutanix.InstanceConfig], req driver.CreateRequest[nutanix.InstanceConfig]) {
			w.cloud.FailNext(nutanixfake.Fault{Start: "NO_HOST_RESOURCES"})
			if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
				t.Fatalf("got %v, want an InsufficientCapacityError", err)
			}
			w.cloud.Age(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{TaskRequests: 30, ListDelay: 30})
			d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
			before(t, w, d, req)
			requested := w.cloud.Counts()["POST vms"]
			for w.cloud.Counts()["POST vms"] == requested {
				if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
					t.Fatalf("got %v, want an UnfinishedError", err)
				}
			}
			patiently(t, w.connectRestarted(t), req)
			if left := w.cloud.Leftovers(); len(left) != 1 {
				t.Errorf("%q exist, want one virtual machine", left)
			}
		})
	}
}

// TestRefusalOfARepeatedRequest: it does not prove that the first one, of an earlier process, was not carried out.
func TestRefusalOfARepeatedRequest(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 30, ListDelay: 30})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for w.cloud.Counts()["POST vms"] == 0 {
		if w.cloud.Counts()["POST categories"] > 0 {
			w.cloud.FailNext(nutanixfake.Fault{Lost: true})
		}
		_, _ = d.Create(t.Context(), req)
	}
	d = w.connectRestarted(t)
	w.cloud.RefuseNextCreation(nutanixfake.Fault{Status: http.StatusTooManyRequests, Group: "RATE_LIMIT_EXCEEDED"})
	for w.cloud.Counts()["POST vms"] < 2 {
		_, _ = d.Create(t.Context(), req)
	}
	patiently(t, d, req)
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestAbsenceIsNotConcludedEarly: a request whose answer was lost may still arrive, and so may one of an earlier process.
func TestAbsenceIsNotConcludedEarly(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1000})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for w.cloud.Counts()["POST vms"] == 0 {
		if w.cloud.Counts()["POST categories"] > 0 {
			w.cloud.FailNext(nutanixfake.Fault{Lost: true})
		}
		_, _ = d.Create(t.Context(), req)
	}
	later := w.connectRestarted(t)
	for name, d := range map[string]driver.Driver[nutanix.InstanceConfig]{"in the same process": d, "after a restart": later} {
		if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading %s: got %v", name, err)
		}
		if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
			t.Errorf("deleting %s: got %v", name, err)
		}
	}
	w.clock.Advance(2 * inflight.Window)
	if err := later.Delete(t.Context(), identity); err == nil {
		t.Error("deleting ended while the virtual machine is being created")
	}
	w.cloud.Advance()
	w.clock.Advance(creationTime)
	for range 3 {
		if err := later.Delete(t.Context(), identity); err != nil {
			t.Fatal(err)
		}
		w.cloud.Advance()
	}
	if left := w.cloud.Leftovers(); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// TestRefusalLongAfterALostAnswer: Prism Central may have carried out the request that it did not answer.
func TestRefusalLongAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1000, ListDelay: 1000})
	d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
	for w.cloud.Counts()["POST vms"] == 0 {
		w.cloud.FailNext(nutanixfake.Fault{Lost: true})
		_, _ = d.Create(t.Context(), req)
	}
	w.clock.Advance(3 * time.Minute)
	w.cloud.RefuseNextCreation(nutanixfake.Fault{Status: http.StatusTooManyRequests, Group: "RATE_LIMIT_EXCEEDED"})
	if _, err := d.Create(t.Context(), req); !driver.IsRateLimited(err) {
		t.Fatalf("creating: got %v", err)
	}
	if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Errorf("deleting: got %v", err)
	}
}

// TestCreationThatTakesHours is not forgotten while its task is read.
func TestCreationThatTakesHours(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1000})
	d := w.connect(t)
	for w.cloud.Counts()["POST vms"] == 0 {
		_, _ = d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	}
	for range 4 {
		w.clock.Advance(40 * time.Minute)
		if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) || !strings.Contains(err.Error(), "task") {
			t.Fatalf("got %v while the virtual machine is being created", err)
		}
	}
}

// TestCopiesAreNobodys: a copy in Prism Central has the description of the original.
func TestCopiesAreNobodys(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created := patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
	w.cloud.Clone(created.ID, "a-copy")
	if ids := drivertest.ProviderIDs(t, d); len(ids) != 1 || ids[0] != created.ProviderID {
		t.Errorf("the list has %q, want %q", ids, created.ProviderID)
	}
}

// TestDuplicatesGoTogether: should there ever be two, both are deleted with the machine, and the older one is used.
func TestDuplicatesGoTogether(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	created := patiently(t, w.connect(t), newRequest(identity, newConfig(t, unchanged)))
	w.cloud.Clone(created.ID, identity.Name)
	d := w.connect(t)
	if found, err := d.Get(t.Context(), identity); err != nil || found.ID != created.ID {
		t.Errorf("got %s and %v, want the older one", found.ID, err)
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	if left := w.cloud.Leftovers(); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// TestVirtualMachineOfUnclearStateIsStarted: what is not known to run is not created yet, because nothing starts it later.
func TestVirtualMachineOfUnclearStateIsStarted(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 2})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
		t.Fatal(err)
	}
	w.cloud.Advance()
	w.cloud.SetPower(config.POWERSTATE_UNDETERMINED)
	for range 5 {
		if got, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
			t.Fatalf("got %+v, error %v", got, err)
		}
	}
	w.cloud.SetPower(config.POWERSTATE_OFF)
	created := patiently(t, d, req)
	if got := w.cloud.VM(created.ID).PowerState; got == nil || *got != config.POWERSTATE_ON {
		t.Errorf("the virtual machine is %v", got)
	}
}

// TestStoppedIsNotStartedByReads: only Create starts.
func TestStoppedIsNotStartedByReads(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	id := identity
	id.ProviderID = patiently(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
	for state, want := range map[config.PowerState]driver.State{
		config.POWERSTATE_OFF: driver.Stopped, config.POWERSTATE_PAUSED: driver.Stopped, config.POWERSTATE_UNDETERMINED: driver.Pending, config.POWERSTATE_ON: driver.Running,
	} {
		w.cloud.SetPower(state)
		if found, err := d.Get(t.Context(), id); err != nil || found.State != want {
			t.Errorf("%s: got %s and %v, want %s", state.GetName(), found.State, err, want)
		}
	}
	if starts := w.cloud.Counts()["POST vms/{id}/$actions/power-on"]; starts != 1 {
		t.Errorf("it was started %d times", starts)
	}
}

// TestFallbackIsTriedInAnotherCluster after the virtual machine in the full one is gone.
func TestFallbackIsTriedInAnotherCluster(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 1})
	d := w.connect(t)
	full := newConfig(t, func(s *infrav1.NutanixMachineSpec) {
		s.Cluster, s.Fallbacks = nutanixfake.FullCluster, []infrav1.NutanixFallback{{Cluster: nutanixfake.ClusterB}}
	})
	if _, err := drivertest.Create(t, d, newRequest(identity, full)); !driver.IsInsufficientCapacity(err) || !strings.Contains(err.Error(), "NO_HOST_RESOURCES") {
		t.Fatalf("got %v, want an InsufficientCapacityError with the reason", err)
	}
	other := w.description().Alternatives(full)
	created, err := drivertest.Create(t, d, newRequest(identity, other[0]))
	if err != nil || created.FailureDomain != nutanixfake.ClusterB {
		t.Errorf("got %+v and %v, want one in the other cluster", created, err)
	}
	if left := w.cloud.Leftovers(); len(left) != 1 {
		t.Errorf("%q exist, want one virtual machine", left)
	}
}

// TestWhatAnotherProcessStartedIsKept: a process that has lost its Lease is about to delete a virtual machine that could not be
// started, or that a creation left, and its successor has started it meanwhile.
func TestWhatAnotherProcessStartedIsKept(t *testing.T) {
	t.Parallel()
	notStarted, left := nutanixfake.Fault{Start: "NO_HOST_RESOURCES"}, nutanixfake.Fault{Task: "VM_CREATE_FAILED", LeavesVM: true}
	for name, test := range map[string]struct {
		fault nutanixfake.Fault
		power config.PowerState
	}{
		"that could not be started":             {notStarted, config.POWERSTATE_ON},
		"that could not be started, and pauses": {notStarted, config.POWERSTATE_PAUSED},
		"that a creation left":                  {left, config.POWERSTATE_ON},
		"that a creation left, and pauses":      {left, config.POWERSTATE_PAUSED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{})
			d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
			w.cloud.FailNext(test.fault)
			w.cloud.FailNext(nutanixfake.Fault{Removal: "RETRYABLE_ERROR"})
			for w.cloud.Counts()["DELETE vms/{id}"] == 0 {
				if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
					t.Fatal(err)
				}
			}
			w.cloud.Age(time.Hour)
			successor := patiently(t, w.connectRestarted(t), req)
			w.cloud.SetPower(test.power)
			if own := patiently(t, d, req); own.ID != successor.ID {
				t.Errorf("got %s, want %s", own.ID, successor.ID)
			}
			if found, err := d.Get(t.Context(), successor.Identity); err != nil || strings.Contains(found.Message, "delete") {
				t.Errorf("got %q and %v, want no failure of a removal", found.Message, err)
			}
			if got := w.cloud.VM(successor.ID); got == nil || *got.PowerState != test.power {
				t.Errorf("the virtual machine is %+v", got)
			}
		})
	}
}

// TestNothingButListsReadsAllVirtualMachines: there may be thousands, and a call has two minutes.
func TestNothingButListsReadsAllVirtualMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created := patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
	for n := range 300 {
		w.cloud.Clone(created.ID, fmt.Sprint("another-", n))
	}
	mine := identity
	mine.UID, mine.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	for _, step := range []struct {
		verb string
		call func() error
	}{
		{"reading", func() error { _, err := d.Get(t.Context(), mine); return err }},
		{"deleting", func() error { return d.Delete(t.Context(), mine) }},
		{"creating", func() error { _, err := d.Create(t.Context(), newRequest(mine, newConfig(t, unchanged))); return err }},
	} {
		before := w.cloud.Counts()["GET vms"]
		if err := step.call(); err != nil && !driver.IsNotFound(err) && !driver.IsUnfinished(err) {
			t.Errorf("%s: %v", step.verb, err)
		}
		if lists := w.cloud.Counts()["GET vms"] - before; lists != 1 {
			t.Errorf("%s read %d pages of virtual machines, want 1", step.verb, lists)
		}
	}
}

// TestRequestsHaveTheIdentity: no virtual machine ever exists without it.
func TestRequestsHaveTheIdentity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	patiently(t, w.connect(t), newRequest(identity, newConfig(t, unchanged)))
	for _, sent := range w.cloud.Requests() {
		vm := config.NewVm()
		if err := json.Unmarshal(sent, vm); err != nil {
			t.Fatal(err)
		}
		if vm.Description == nil || !strings.Contains(*vm.Description, string(identity.UID)) || len(vm.Categories) != 1 {
			t.Errorf("the request has no identity: %s", sent)
		}
	}
}
