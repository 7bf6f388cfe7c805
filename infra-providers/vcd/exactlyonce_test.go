// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/createcache"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

func numbered(n byte) driver.Identity {
	id := identity
	id.UID, id.Name = types.UID("0a1b2c3d-0000-4000-8000-00000000000"+string('0'+n)), "worker-"+string('0'+n)
	return id
}

// TestRecompositionsOfOneVAppWait creates several machines in one vApp at the same time, by two processes. Director refuses every
// recomposition but one as busy, which is no failure.
func TestRecompositionsOfOneVAppWait(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{TaskRequests: 2})
	processes := []driver.Driver[vcd.InstanceConfig]{w.connect(t), w.connect(t)}
	var machines sync.WaitGroup
	for n := range byte(6) {
		machines.Go(func() {
			req := newRequest(numbered(n), newConfig(t, unchanged))
			for range 1000 {
				_, err := processes[n%2].Create(t.Context(), req)
				if err == nil {
					return
				}
				if !driver.IsUnfinished(err) {
					t.Errorf("creating: %v", err)
				}
			}
			t.Error("the creation does not end")
		})
	}
	machines.Wait()
	if got := drivertest.ProviderIDs(t, processes[0]); len(got) != 6 {
		t.Errorf("%d virtual machines, want 6", len(got))
	}
}

// TestLostRecompositionIsFound loses the answer to a recomposition. The same process and one that has just started find what it added.
func TestLostRecompositionIsFound(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"the same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, vcdfake.Options{TaskRequests: 4, LateChildren: true})
			d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
			w.cloud.FailNext(vcdfake.Fault{Lost: true})
			if _, err := d.Create(t.Context(), req); err == nil || driver.IsUnfinished(err) {
				t.Fatalf("got %v, want the lost answer", err)
			}
			if restarted {
				d = w.connectRestarted(t)
			}
			if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
				t.Errorf("while the vApp is recomposed: got %v, want no NotFoundError", err)
			}
			create(t, d, req)
			if got := w.cloud.Counts()["recompose"]; got != 1 {
				t.Errorf("%d recompositions, want 1", got)
			}
			if got := len(w.cloud.Leftovers()); got != 1 {
				t.Errorf("%d virtual machines, want 1", got)
			}
		})
	}
}

// TestRecompositionInProgress may add the virtual machine of any machine, unless this process has started it for another one.
func TestRecompositionInProgress(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{TaskRequests: 50, LateChildren: true})
	d, other := w.connect(t), w.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	for who, of := range map[string]driver.Driver[vcd.InstanceConfig]{"the process that started it": d, "another process": other} {
		if err := get(t, of, identity); !driver.IsUnfinished(err) {
			t.Errorf("%s: got %v, want an UnfinishedError", who, err)
		}
		if err := of.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
			t.Errorf("%s, deleting: got %v, want an UnfinishedError", who, err)
		}
	}
	if err := get(t, d, numbered(2)); !driver.IsNotFound(err) {
		t.Errorf("for another machine: got %v, want a NotFoundError", err)
	}
	if err := get(t, other, numbered(2)); !driver.IsUnfinished(err) {
		t.Errorf("for another machine, in another process: got %v, want an UnfinishedError", err)
	}
}

// TestAbsenceIsProven has machines that do not exist, in states in which that is not known.
func TestAbsenceIsProven(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	restarted := w.connectRestarted(t)
	if _, err := restarted.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("after a restart: got %v, want no NotFoundError", err)
	}
	w.clock.Advance(createcache.Window)
	if _, err := restarted.Get(t.Context(), identity); !driver.IsNotFound(err) {
		t.Errorf("after the startup window: got %v, want a NotFoundError", err)
	}
	d := w.connect(t)
	w.cloud.FailNext(vcdfake.Fault{Status: http.StatusBadGateway, Code: "INTERNAL_SERVER_ERROR", Message: "down", Operation: "recompose"})
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the recomposition did not fail")
	}
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("after a request without an answer: got %v, want no NotFoundError", err)
	}
	w.clock.Advance(createcache.Window)
	if _, err := d.Get(t.Context(), identity); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestUnreadableIsNotAbsent: Director answers for what may not be read as for what does not exist.
func TestUnreadableIsNotAbsent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	id := identity
	id.ProviderID = create(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
	w.cloud.FailNext(vcdfake.Fault{Status: http.StatusForbidden, Code: "ACCESS_TO_RESOURCE_IS_FORBIDDEN", Message: "no rights"})
	if _, err := d.Get(t.Context(), id); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
	w.cloud.Move(created(id), vcdfake.OtherVApp)
	if _, err := d.Get(t.Context(), id); err != nil {
		t.Errorf("in another vApp: got %v, want the virtual machine", err)
	}
	byUID := identity
	if found, err := d.Get(t.Context(), byUID); err != nil || found.ProviderID != id.ProviderID {
		t.Errorf("by UID in another vApp: got %q and %v, want the virtual machine", found.ProviderID, err)
	}
}

// TestMovedVirtualMachineIsNotAbsent: that its first vApp does not have it explains no refusal.
func TestMovedVirtualMachineIsNotAbsent(t *testing.T) {
	t.Parallel()
	for operation, call := range map[string]func(t *testing.T, d driver.Driver[vcd.InstanceConfig], id driver.Identity) error{
		"metadata": get,
		"undeploy": func(t *testing.T, d driver.Driver[vcd.InstanceConfig], id driver.Identity) error {
			return d.Delete(t.Context(), id)
		},
		"reset": func(t *testing.T, d driver.Driver[vcd.InstanceConfig], id driver.Identity) error {
			return d.(driver.Restarter).Restart(t.Context(), id)
		},
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, vcdfake.Options{})
			d, id := w.connect(t), identity
			id.ProviderID = create(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
			w.cloud.Move(created(id), vcdfake.OtherVApp)
			w.cloud.FailNext(vcdfake.Fault{Operation: operation, Status: http.StatusForbidden, Code: "ACCESS_TO_RESOURCE_IS_FORBIDDEN", Message: "no rights"})
			if err := call(t, d, id); !driver.IsUnauthorized(err) {
				t.Errorf("got %v, want an UnauthorizedError", err)
			}
		})
	}
}

func created(id driver.Identity) string {
	return id.ProviderID[strings.LastIndex(id.ProviderID, ":")+1:]
}

// TestDeletedVApp: the virtual machines of a vApp that is not there are not known to be gone. An empty one of the same name proves it.
func TestDeletedVApp(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	id := identity
	id.ProviderID = create(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
	w.cloud.RemoveVApp(vcdfake.VApp, false)
	for verb, err := range map[string]error{"deleting": d.Delete(t.Context(), id), "reading": get(t, d, id)} {
		if err == nil || driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
			t.Errorf("%s without the vApp: got %v, want an error that passes", verb, err)
		}
	}
	if _, err := d.Create(t.Context(), newRequest(numbered(2), newConfig(t, unchanged))); !driver.IsInvalidConfiguration(err) {
		t.Errorf("creating without the vApp: got %v, want an InvalidConfigurationError", err)
	}
	w.cloud.RemoveVApp(vcdfake.VApp, true)
	if err := get(t, d, id); !driver.IsNotFound(err) {
		t.Errorf("with an empty vApp: got %v, want a NotFoundError", err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting with an empty vApp: %v", err)
	}
}

func get(t *testing.T, d driver.Driver[vcd.InstanceConfig], id driver.Identity) error {
	t.Helper()
	_, err := d.Get(t.Context(), id)
	return err
}

// TestCreationContinues kills the process after each task of a creation.
func TestCreationContinues(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	req := newRequest(identity, newConfig(t, unchanged))
	for range 20 {
		d := w.connectRestarted(t)
		_, err := d.Create(t.Context(), req)
		if err == nil {
			break
		}
		if !driver.IsUnfinished(err) {
			t.Fatal(err)
		}
	}
	want := map[string]int{"recompose": 1, "reconfigure": 1, "setProductSections": 1, "setMetadata": 1, "powerOn": 1}
	got := map[string]int{}
	for operation := range want {
		got[operation] = w.cloud.Counts()[operation]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestUnfinishedVirtualMachineIsDeleted deletes what a creation left after each of its tasks.
func TestUnfinishedVirtualMachineIsDeleted(t *testing.T) {
	t.Parallel()
	for steps := range 6 {
		w := newEnv(t, vcdfake.Options{TaskRequests: 1})
		d := w.connect(t)
		for w.cloud.Changes() < steps {
			if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err != nil && !driver.IsUnfinished(err) {
				t.Fatal(err)
			}
		}
		remove(t, w.connect(t), identity)
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("after %d changes %q is left", steps, left)
		}
	}
}

// TestFailedTask reports the failure of each task once, and tries again.
func TestFailedTask(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		for _, operation := range []string{"vdcRecomposeVapp", "vappUpdateVm", "vappUpdateProductSection", "metadataUpdate", "vappDeploy"} {
			failures := 1
			w := newEnv(t, vcdfake.Options{KeepFailed: keep, FailTasks: func(of string) bool {
				fails := of == operation && failures > 0
				if fails {
					failures--
				}
				return fails
			}})
			d, seen := w.connect(t), error(nil)
			for range 50 {
				_, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
				if err == nil {
					break
				}
				if !driver.IsUnfinished(err) {
					seen = errors.Join(seen, err)
				}
			}
			if seen == nil || strings.Count(seen.Error(), "INTERNAL_SERVER_ERROR: The operation "+operation+" failed.") != 1 || strings.Contains(seen.Error(), "\n") {
				t.Errorf("%s: got the failures %v, want one", operation, seen)
			}
			if left := len(w.cloud.Leftovers()); left != 1 {
				t.Errorf("%s: %d virtual machines, want 1", operation, left)
			}
		}
	}
}

// TestVersionIsFoundAgain after an upgrade of the server, which knows the session and not the version of the API any more.
func TestVersionIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	create(t, d, newRequest(identity, newConfig(t, unchanged)))
	w.clock.Advance(2 * time.Minute)
	w.cloud.FailNext(vcdfake.Fault{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Message: "Invalid API version requested"})
	if _, err := d.Get(t.Context(), identity); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
	if got := w.cloud.Counts()["login"]; got != 2 {
		t.Errorf("%d logins, want 2", got)
	}
}

// TestRequestThatIsNeverAcceptable does not cost a login with each attempt: a proxy refuses it, and no version of the API helps.
func TestRequestThatIsNeverAcceptable(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	for range 10 {
		w.cloud.FailNext(vcdfake.Fault{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Message: "Not acceptable", Operation: "setProductSections"})
	}
	_, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	for n := 0; err != nil && n < 100; n++ {
		_, err = d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if counts := w.cloud.Counts(); counts["login"] > 2 || counts["setProductSections"] != 11 {
		t.Errorf("%d logins and %d requests, want 2 at most and 11", counts["login"], counts["setProductSections"])
	}
}

// TestSessionIsRenewed ends the sessions on the server.
func TestSessionIsRenewed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	d := w.connect(t)
	create(t, d, newRequest(identity, newConfig(t, unchanged)))
	w.cloud.EndSessions()
	if _, err := d.Get(t.Context(), identity); err != nil {
		t.Errorf("after the end of the session: %v", err)
	}
	if got := w.cloud.Counts()["login"]; got != 2 {
		t.Errorf("%d logins, want 2", got)
	}
}
