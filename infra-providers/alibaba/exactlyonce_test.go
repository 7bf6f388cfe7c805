// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// noStock is a refusal that passes.
var noStock = alibabafake.Fault{Status: http.StatusForbidden, Code: "OperationDenied.NoStock", Message: "The requested resource is sold out in the specified zone."}

func wantInstances(t *testing.T, d driver.Driver[alibaba.InstanceConfig], want int) {
	t.Helper()
	var found []string
	for range 10 { // the first reads omit what is new
		found = drivertest.ProviderIDs(t, d)
	}
	if len(found) != want {
		t.Errorf("got the instances %q, want %d", found, want)
	}
}

// TestUnansweredCreationIsNotAbsent deletes a machine whose creation got no answer and that ECS does not list yet.
func TestUnansweredCreationIsNotAbsent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	w.cloud.HideNext(3)
	w.cloud.FailNext(alibabafake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the answer was not lost")
	}
	for verb, call := range map[string]func() error{
		"delete": func() error { return d.Delete(t.Context(), identity) },
		"get":    func() error { _, err := d.Get(t.Context(), identity); return err },
	} {
		if err := call(); err == nil || driver.IsNotFound(err) {
			t.Errorf("%s while ECS does not list it: got %v", verb, err)
		}
	}
	for range 3 {
		_, _ = d.Get(t.Context(), identity) // each read brings the listing closer
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatalf("deleting what is listed: %v", err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestFailedCreationIsAbsentAfterTheWindow has a request that had no effect.
func TestFailedCreationIsAbsentAfterTheWindow(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{Faults: func(action string) alibabafake.Fault {
		if action == "RunInstances" {
			return alibabafake.Fault{Status: http.StatusInternalServerError, Code: "InternalError", Message: "The request processing has failed."}
		}
		return alibabafake.Fault{}
	}})
	d := w.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the creation succeeded")
	}
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("within the window: got %v", err)
	}
	w.clock.Advance(3 * time.Minute)
	if _, err := d.Get(t.Context(), identity); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestInstanceIsNotAbsentAfterARestart has a provider that restarts after the creation, with an empty cache.
func TestInstanceIsNotAbsentAfterARestart(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ListDelay: 5})
	created, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	d, byID := w.connectRestarted(t), identity
	byID.ProviderID = created.ProviderID
	for as, id := range map[string]driver.Identity{"UID": identity, "provider ID": byID} {
		if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading by %s: got %v", as, err)
		}
		if err := d.Delete(t.Context(), id); err == nil {
			t.Errorf("deleting by %s: got no error", as)
		}
	}
	if err := d.Delete(t.Context(), byID); err != nil {
		t.Fatalf("deleting what is listed: %v", err)
	}
	w.clock.Advance(3 * time.Minute)
	if _, err := d.Get(t.Context(), byID); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestReleasedInstanceIsAbsentAtOnce, also right after a restart: ECS does not list it any more, and not because it lists late.
func TestReleasedInstanceIsAbsentAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{StoppingReads: 1})
	created, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	d, id := w.connectRestarted(t), identity
	id.ProviderID = created.ProviderID
	if _, err := d.Get(t.Context(), id); err != nil { // it runs from now on
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(t.Context(), id); err != nil || got.State != driver.Stopping {
		t.Errorf("before it is gone: got %+v and %v", got, err)
	}
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("afterwards: got %v, want a NotFoundError", err)
	}
	id.ProviderID += "x"
	if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
		t.Errorf("another one: got %v", err)
	}
}

// TestLostAnswersAreRepeatedWithTheSameToken, also by a process without any memory, while no list has the instance.
func TestLostAnswersAreRepeatedWithTheSameToken(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(env, *testing.T) driver.Driver[alibaba.InstanceConfig]{
		"in one process": nil, "after a restart": env.connect, "right after a restart": env.connectRestarted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, alibabafake.Options{ListDelay: 6})
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, withDisk))
			req.Since = w.clock.Now()
			for range 3 {
				w.cloud.FailNext(alibabafake.Fault{Lost: true})
				if _, err := d.Create(t.Context(), req); err == nil {
					t.Fatal("the answer was not lost")
				}
				if connect != nil {
					d = connect(w, t)
				}
			}
			if _, err := d.Create(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			wantInstances(t, d, 1)
		})
	}
}

// TestConcurrentProcessesCreateOnce while no list has the instance.
func TestConcurrentProcessesCreateOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ListDelay: 8})
	req := newRequest(identity, newConfig(t, withDisk))
	var wait sync.WaitGroup
	for range 4 {
		d := w.connect(t)
		wait.Go(func() { _, _ = d.Create(t.Context(), req) })
	}
	wait.Wait()
	wantInstances(t, w.connect(t), 1)
}

// TestEachAttemptHasAnotherToken: with the same one, ECS may answer with the first refusal for as long as it stores the token.
func TestEachAttemptHasAnotherToken(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ReplayRefusals: true})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for range 3 {
		w.cloud.FailNext(noStock)
		if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
	}
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Fatalf("once there is stock: %v", err)
	}
	wantInstances(t, d, 1)
}

// noSwitch and noTrust are refusals until something else changes in the cloud.
var (
	noSwitch = alibabafake.Fault{Status: http.StatusBadRequest, Code: "InvalidVSwitchId.NotFound", Message: "The specified virtual switch does not exist."}
	noTrust  = alibabafake.Fault{Status: http.StatusForbidden, Code: "InvalidRamRole.NotEcsRole", Message: "The specified RAM role is not authorized for ECS."}
)

// TestWhatWasMissingIsFoundByTheNextAttempt, also in a cloud that answers a token with its first refusal, and in another process,
// which meets one refusal of the process before and not all of them.
func TestWhatWasMissingIsFoundByTheNextAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault alibabafake.Fault
		is    func(error) bool
	}{
		"a vSwitch":           {noSwitch, driver.IsInvalidConfiguration},
		"the trust of a role": {noTrust, driver.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, alibabafake.Options{ReplayRefusals: true})
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, unchanged))
			other := req
			other.Identity.UID = "0a1b2c3d-0000-4000-8000-000000000002"
			for range 3 {
				for _, request := range []driver.CreateRequest[alibaba.InstanceConfig]{req, other} {
					w.cloud.FailNext(test.fault)
					if _, err := d.Create(t.Context(), request); !test.is(err) {
						t.Fatalf("while it is missing: got %v", err)
					}
				}
				w.clock.Advance(10 * time.Minute)
			}
			if _, err := d.Create(t.Context(), req); err != nil {
				t.Errorf("once it exists: %v", err)
			}
			d = w.connect(t)
			if _, err := d.Create(t.Context(), other); !test.is(err) {
				t.Errorf("in another process: got %v, want the first refusal", err)
			}
			if _, err := d.Create(t.Context(), other); err != nil {
				t.Errorf("in another process: %v", err)
			}
			wantInstances(t, d, 2)
		})
	}
}

// TestRefusalRightAfterARestartDoesNotCount: an earlier process may have created the instance with the token that both use first, and
// ECS may check permissions and parameters before the token.
func TestRefusalRightAfterARestartDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]alibabafake.Fault{"a vSwitch": noSwitch, "the trust of a role": noTrust} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, alibabafake.Options{ListDelay: 8, CheckFirst: true})
			req := newRequest(identity, newConfig(t, unchanged))
			req.Since = w.clock.Now()
			w.cloud.FailNext(alibabafake.Fault{Lost: true})
			if _, err := w.connect(t).Create(t.Context(), req); err == nil {
				t.Fatal("the answer was not lost")
			}
			d := w.connectRestarted(t)
			w.cloud.FailNext(fault)
			if _, err := d.Create(t.Context(), req); !driver.IsInvalidConfiguration(err) && !driver.IsUnauthorized(err) {
				t.Fatalf("while it is missing: got %v", err)
			}
			if _, err := d.Create(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			wantInstances(t, d, 1)
		})
	}
}

// TestInvalidRepetitionOfAnUnansweredRequestDoesNotCount: the first request may still arrive, under the token that it had.
func TestInvalidRepetitionOfAnUnansweredRequestDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ListDelay: 100})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for _, fault := range []alibabafake.Fault{{Status: http.StatusGatewayTimeout, Code: "OperationDenied.Timeout", Message: "no answer in time"}, noSwitch, noTrust} {
		w.cloud.FailNext(fault)
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
			t.Errorf("after %s: got %v", fault.Code, err)
		}
	}
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Error(err)
	}
	first := newEnv(t, alibabafake.Options{})
	if _, err := first.connect(t).Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got, want := w.cloud.Requests()[0]["ClientToken"], first.cloud.Requests()[0]["ClientToken"]; got != want {
		t.Errorf("the last request had the token %q, want that of a first one, %q", got, want)
	}
}

// TestProcessWithoutMemoryPassesEarlierRefusals: it may not take the token of an earlier process for a new one.
func TestProcessWithoutMemoryPassesEarlierRefusals(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{ReplayRefusals: true, ListDelay: 100})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	req.Since = w.clock.Now().Add(-5 * time.Minute)
	w.cloud.FailNext(noStock)
	if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	w.cloud.FailNext(alibabafake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), req); err == nil {
		t.Fatal("the answer was not lost")
	}
	d = w.connectRestarted(t)
	requests := len(w.cloud.Requests())
	if created, err := d.Create(t.Context(), req); err == nil || driver.IsInsufficientCapacity(err) || len(w.cloud.Requests()) != requests {
		t.Fatalf("while an earlier process may have requested it: got %+v and %v", created, err)
	}
	w.clock.Advance(3 * time.Minute)
	if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want the earlier refusal", err)
	}
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if left := w.cloud.Leftovers(); len(left) != 3 {
		t.Errorf("%q exist, want one instance with its disk and its network interface", left)
	}
}

// TestRefusalOfARepeatedRequestDoesNotCount: the first request may still arrive.
func TestRefusalOfARepeatedRequestDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(alibabafake.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
	_, _ = d.Get(t.Context(), identity) // takes the fault
	failing := alibabafake.Fault{Status: http.StatusGatewayTimeout, Code: "OperationDenied.Timeout", Message: "no answer in time"}
	w.cloud.FailNext(failing)
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want a failure", err)
	}
	w.cloud.FailNext(noStock)
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsInsufficientCapacity(err) {
		t.Errorf("a refusal while the first request may arrive: got %v", err)
	}
	other := req
	other.Config = newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.ZoneID = alibabafake.ZoneB })
	if created, err := d.Create(t.Context(), other); err == nil {
		t.Errorf("another zone while the first request may arrive: got %+v", created)
	}
	w.clock.Advance(3 * time.Minute)
	w.cloud.FailNext(noStock)
	if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
		t.Errorf("after the window: got %v, want an InsufficientCapacityError", err)
	}
}

// TestUserDataMayChangeBetweenAttempts has a client token that ECS has stored with other parameters: an existing instance is
// waited for, and a creation that was refused does not block the next one for ever.
func TestUserDataMayChangeBetweenAttempts(t *testing.T) {
	t.Parallel()
	t.Run("finds the instance once it is listed", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t, alibabafake.Options{})
		w.cloud.HideNext(3)
		w.cloud.FailNext(alibabafake.Fault{Lost: true})
		req := newRequest(identity, newConfig(t, unchanged))
		_, _ = w.connect(t).Create(t.Context(), req)
		req.UserData = []byte("#cloud-config\nhostname: other\n")
		d := w.connect(t)
		for range 2 {
			if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
				t.Fatalf("while ECS does not list it: got %v", err)
			}
		}
		_, _ = d.Get(t.Context(), identity)
		if _, err := d.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		wantInstances(t, d, 1)
	})
	t.Run("creates an instance when there is none", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t, alibabafake.Options{})
		d := w.connect(t)
		req := newRequest(identity, newConfig(t, unchanged))
		w.cloud.FailNext(noStock)
		if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
		req.UserData = []byte("#cloud-config\nhostname: other\n")
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInsufficientCapacity(err) {
			t.Fatalf("with a token of other parameters: got %v", err)
		}
		w.clock.Advance(3 * time.Minute)
		if _, err := d.Create(t.Context(), req); err != nil {
			t.Errorf("after the window: got %v, want another request", err)
		}
		wantInstances(t, d, 1)
	})
}

// TestLostAnswerOfAnotherTokenIsAwaited: the tokens that derive from parameters differ, so that they do not prevent a second
// instance.
func TestLostAnswerOfAnotherTokenIsAwaited(t *testing.T) {
	t.Parallel()
	faults := make(chan alibabafake.Fault, 4)
	w := newEnv(t, alibabafake.Options{ListDelay: 20, Faults: func(action string) alibabafake.Fault {
		if action == "RunInstances" && len(faults) > 0 {
			return <-faults
		}
		return alibabafake.Fault{}
	}})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	create := func(userData string) {
		t.Helper()
		req.UserData = []byte("#cloud-config\nhostname: " + userData + "\n")
		if _, err := d.Create(t.Context(), req); err == nil {
			t.Fatal("the creation succeeded")
		}
	}
	faults <- alibabafake.Fault{Status: http.StatusForbidden, Code: "OperationDenied.Other", Message: "It is denied."} // binds the token to its parameters
	create("a")
	w.clock.Advance(3 * time.Minute)
	create("b")
	w.clock.Advance(3 * time.Minute)
	faults <- alibabafake.Fault{}
	faults <- alibabafake.Fault{Lost: true} // of the request with another token
	create("c")
	create("d")
	if left := w.cloud.Leftovers(); len(left) != 3 {
		t.Errorf("%q exist, want one instance with its disk and its network interface", left)
	}
}

// TestListThatIsBehindAnotherOne: the answer to the creation was lost, and one list has the instance before another one has it.
func TestListThatIsBehindAnotherOne(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(alibabafake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), req); err == nil {
		t.Fatal("the answer was not lost")
	}
	created, err := d.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	id := identity
	id.ProviderID = created.ProviderID
	w.cloud.Hide(created.ID, 1)
	if _, err := d.Get(t.Context(), id); err != nil {
		t.Errorf("while a list is behind: %v", err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, w)
}

// TestTokensThatCannotBeUsed: a request that is being carried out is waited for, and one that failed is followed by another.
func TestTokensThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	refused := func(code string) alibabafake.Fault {
		return alibabafake.Fault{Status: http.StatusForbidden, Code: code, Message: "The previous idempotent request(s) is processing, or has failed."}
	}
	w := newEnv(t, alibabafake.Options{ReplayRefusals: true})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(refused("IdempotentProcessing"))
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("while it is being carried out: got %v", err)
	}
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("reading while it is being carried out: got %v", err)
	}
	w.clock.Advance(3 * time.Minute)
	w.cloud.FailNext(refused("IdempotentFailed"))
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("after it has failed: got %v", err)
	}
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Errorf("with the next token: %v", err)
	}
	wantInstances(t, d, 1)
}

// TestTokenIsOfOneMachine: the author of a machine may choose the UID of another tenant's, and the answer to a token is the ID of
// the instance that has it.
func TestTokenIsOfOneMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	seen := map[string]bool{}
	for _, change := range []func(*driver.Identity){
		func(*driver.Identity) {}, func(id *driver.Identity) { id.UID = "other" }, func(id *driver.Identity) { id.Name = "other" },
		func(id *driver.Identity) { id.Owner.Namespace = "other" }, func(id *driver.Identity) { id.Owner.Name = "other" },
	} {
		id := identity
		change(&id)
		w.cloud.HideNext(100) // no creation finds the other instances
		if _, err := w.connect(t).Create(t.Context(), newRequest(id, newConfig(t, unchanged))); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range w.cloud.Requests() {
		seen[request["ClientToken"]] = true
	}
	if len(seen) != 5 {
		t.Errorf("5 machines have %d tokens", len(seen))
	}
}

// TestDeleteRemovesDuplicates has two instances of one machine, as after ECS has forgotten a client token.
func TestDeleteRemovesDuplicates(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	for _, zone := range []string{alibabafake.ZoneA, alibabafake.ZoneB} {
		w.cloud.HideNext(2)
		if _, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.ZoneID = zone }))); err != nil {
			t.Fatal(err)
		}
	}
	wantInstances(t, d, 2)
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestInstanceThatIsBeingCreatedIsDeletedLater: ECS refuses to release it.
func TestInstanceThatIsBeingCreatedIsDeletedLater(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{PendingReads: 3})
	d := w.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Errorf("while it is being created: got %v, want an UnfinishedError", err)
	}
	for range 3 {
		_, _ = d.Get(t.Context(), identity)
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Error(err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestListsHaveMoreThanATagSelects: ECS returns a limited number of the instances that have a tag.
func TestListsHaveMoreThanATagSelects(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{MaxTagged: 10})
	d := w.connect(t)
	for n := range 25 {
		id := identity
		id.UID = types.UID(strings.Repeat("x", n+1))
		if _, err := d.Create(t.Context(), newRequest(id, newConfig(t, unchanged))); err != nil {
			t.Fatal(err)
		}
	}
	if found := drivertest.ProviderIDs(t, d); len(found) != 25 {
		t.Errorf("got %d instances, want 25", len(found))
	}
}

// TestTagKeepsTagsOfTheSameUID: the author of a machine may choose the UID of another machine. Disks that were detached are
// tagged too.
func TestTagKeepsTagsOfTheSameUID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	own := driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "1", Namespace: "own", Name: "home"}}
	other := driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "2", Namespace: "other", Name: "home"}}
	for _, id := range []driver.Identity{own, other} {
		w.cloud.HideNext(2) // neither creation finds the other instance
		created, err := w.connect(t).Create(t.Context(), newRequest(id, newConfig(t, withDisk)))
		if err != nil {
			t.Fatal(err)
		}
		w.cloud.Detach(created.ID)
	}
	d := w.connect(t)
	for range 3 {
		_ = drivertest.ProviderIDs(t, d) // the reads that omit them
	}
	own.Owner.UID = "3"
	if err := d.(driver.Tagger).Tag(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	namespaces := w.cloud.Tags(driver.TagClusterNamespace)
	got := map[string]int{}
	for id, cluster := range w.cloud.Tags(driver.TagClusterUID) {
		got[namespaces[id]+" "+cluster]++
	}
	if diff := cmp.Diff(map[string]int{"own 3": 4, "other 2": 4}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []driver.Identity{own, other} {
		if err := d.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// TestTagsThatAreShownLate: the process that requested an instance knows whose it is, and another one does not touch it yet.
func TestTagsThatAreShownLate(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{TagDelay: 4})
	d := w.connect(t)
	created, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	id := identity
	id.ProviderID = created.ProviderID
	if found, err := d.Get(t.Context(), id); err != nil || found.Identity != id {
		t.Errorf("got %+v and %v", found, err)
	}
	if err := w.connect(t).Delete(t.Context(), id); !driver.IsUntagged(err) {
		t.Errorf("by another process: got %v, want a NotOwnedError about tags", err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestReclaimedInstances are reported as such before they are gone, and never requested again.
func TestReclaimedInstances(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	d := w.connect(t)
	created, err := d.Create(t.Context(), newRequest(identity, newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Spot = &infrav1.AlibabaSpot{} })))
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.Reclaim(created.ID)
	if got, err := d.Get(t.Context(), identity); err != nil || got.State != driver.Running || !strings.Contains(got.Message, "reclaims") {
		t.Errorf("before it is gone: got %+v and %v", got, err)
	}
	w.cloud.Release(created.ID)
	w.clock.Advance(3 * time.Minute)
	id := identity
	id.ProviderID = created.ProviderID
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("afterwards: got %v, want a NotFoundError", err)
	}
}

// TestAddressesAreThoseOfTheNode, and not those of an interface for pods.
func TestAddressesAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	created, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range created.Addresses {
		if strings.HasPrefix(address.Address, "10.9.") {
			t.Errorf("the instance has the address %s of a pod", address.Address)
		}
	}
}
