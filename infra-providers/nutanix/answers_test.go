// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/inventory"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

// TestAProxyAnswersTheNegotiation: what a proxy answers is no version, so no project is refused by it for good.
func TestAProxyAnswersTheNegotiation(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	away := true
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if away && r.Method == http.MethodOptions {
			http.Error(rw, "<html>no such page</html>", http.StatusNotFound)
			return
		}
		w.cloud.ServeHTTP(rw, r)
	})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.ProjectID = nutanixfake.Project }))
	if _, err := drivertest.Create(t, d, req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want a transient error", err)
	}
	away = false
	w.clock.Advance(2 * time.Minute)
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Errorf("two minutes later: %v", err)
	}
}

// TestARefusedCategoryIsTold, and does not look as if it were about to appear.
func TestARefusedCategoryIsTold(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/categories") {
			w.cloud.FailNext(nutanixfake.Fault{Status: http.StatusBadRequest, Group: "CATEGORY_LIMIT_REACHED"})
		}
		w.cloud.ServeHTTP(rw, r)
	})
	_, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err == nil || driver.IsUnfinished(err) || driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "creating the category") {
		t.Errorf("got %v, want the refusal", err)
	}
}

// TestASubnetOfAVPC serves every cluster, also where Prism Central names one.
func TestASubnetOfAVPC(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	config := newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.NetworkInterfaces[0].Subnet = nutanixfake.Overlay })
	if _, err := drivertest.Create(t, w.connect(t), newRequest(identity, config)); err != nil {
		t.Error(err)
	}
}

// TestTextsAreStable: an ID that each attempt has another one of is not in them.
func TestTextsAreStable(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/vms") {
			rw.WriteHeader(http.StatusConflict)
			_, _ = rw.Write([]byte(`{"data": {"error": [{"code": "VMM-1", "errorGroup": "BUSY", "message": "the host 5A1B2C3D-0000-4000-8000-00000000beef is busy"}]}}`))
			return
		}
		w.cloud.ServeHTTP(rw, r)
	})
	if _, err := drivertest.Create(t, w.connect(t), newRequest(identity, newConfig(t, unchanged))); err == nil || err.Error() != "VMM-1: the host … is busy" {
		t.Errorf("got %v", err)
	}
}

// TestAVolumeGroupIsAttachedAgain while the virtual machine is being deleted, and is detached again.
func TestAVolumeGroupIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	exists := w.cloud.Attach(created.ID)
	id := identity
	id.ProviderID = created.ProviderID
	for n := range 10 {
		if err := d.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			w.cloud.Advance()
			w.cloud.Reattach(created.ID)
		}
		if _, err = d.Get(t.Context(), id); err != nil {
			break
		}
	}
	if !driver.IsNotFound(err) || !exists() {
		t.Errorf("got %v, want it to be deleted and the volume group to exist", err)
	}
}

// TestAFailedRemovalIsNoticed behind the inventory, whose lists show the removal that has begun.
func TestAFailedRemovalIsNoticed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 10})
	d := w.connect(t)
	created := patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
	id := identity
	id.ProviderID = created.ProviderID
	kept := inventory.New(d, inventory.Options{Interval: time.Minute, Unsettled: 5 * time.Second, Now: w.clock.Now, Changed: func(driver.Identity) {}})
	w.cloud.FailNext(nutanixfake.Fault{Removal: "VM_IS_PROTECTED"})
	state := driver.Running
	for range 60 { // five minutes
		if state != driver.Stopping { // as the reconciler does
			if err := kept.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		w.clock.Advance(5 * time.Second)
		found, err := kept.Get(t.Context(), id)
		if driver.IsNotFound(err) {
			return // it was requested again
		}
		if err != nil {
			t.Fatal(err)
		}
		if state = found.State; state != driver.Stopping && !strings.Contains(found.Message, "VM_IS_PROTECTED") {
			t.Errorf("got %+v, want the reason", found)
		}
	}
	t.Error("the removal that failed is not requested again")
}

// TestListsNoticeAFailedRemoval by themselves, as those of the orphan collector have to.
func TestListsNoticeAFailedRemoval(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	id := identity
	id.ProviderID = patiently(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
	w.cloud.FailNext(nutanixfake.Fault{Removal: "VM_IS_PROTECTED"})
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for passed, want := range []driver.State{driver.Stopping, driver.Running} {
		w.clock.Advance(time.Duration(passed) * time.Minute)
		for found, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil || found.State != want || (want == driver.Running) != strings.Contains(found.Message, "VM_IS_PROTECTED") {
				t.Errorf("%d minutes later: got %s, %q and %v, want %s", passed, found.State, found.Message, err, want)
			}
		}
	}
	if reads := w.cloud.Counts()["GET tasks/{id}"]; reads == 0 {
		t.Errorf("the task was not read: %v", w.cloud.Counts())
	}
}

// TestListsReadATaskOnceAMinute: a removal may take its time, and many may be under way.
func TestListsReadATaskOnceAMinute(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{TaskRequests: 40})
	d := w.connect(t)
	id := identity
	id.ProviderID = patiently(t, d, newRequest(identity, newConfig(t, unchanged))).ProviderID
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	before := w.cloud.Counts()["GET tasks/{id}"]
	for range 24 { // two minutes
		for found, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil || found.State != driver.Stopping {
				t.Errorf("got %s and %v, want %s", found.State, err, driver.Stopping)
			}
		}
		w.clock.Advance(5 * time.Second)
	}
	if reads := w.cloud.Counts()["GET tasks/{id}"] - before; reads != 1 {
		t.Errorf("the task was read %d times, want once", reads)
	}
}

// TestADeletedCategoryIsCreatedAgain: its ID is cached, and machines are not refused for that.
func TestADeletedCategoryIsCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
	w.cloud.DeleteCategories("drover-cluster")
	other := identity
	other.UID, other.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	if _, err := drivertest.Create(t, d, newRequest(other, newConfig(t, unchanged))); err != nil {
		t.Error(err)
	}
	if got := w.cloud.Counts()["POST vms"]; got != 3 {
		t.Errorf("%d virtual machines were requested, want one request too many", got)
	}
}

// TestAnInvalidSpecIsToldBesideOthers of its Cluster, whose creations cache the category each time.
func TestAnInvalidSpecIsToldBesideOthers(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	invalid := newRequest(identity, newConfig(t, func(s *infrav1.NutanixMachineSpec) {
		s.GPUs = []infrav1.NutanixGPU{{Mode: "Virtual", Vendor: "NVIDIA", DeviceID: 1}}
	}))
	var err error
	for n := range 3 {
		other := identity
		other.UID, other.Name = types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-00000000001%d", n)), fmt.Sprintf("other-%d", n)
		patiently(t, d, newRequest(other, newConfig(t, unchanged)))
		if _, err = d.Create(t.Context(), invalid); !driver.IsUnfinished(err) {
			break
		}
	}
	if !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

// TestAFailedRemovalIsTold: the task of a deletion, or of a detachment of a volume group, has failed after it was accepted. It is
// tried again, and not all the time.
func TestAFailedRemovalIsTold(t *testing.T) {
	t.Parallel()
	const reason = "VMM-10000: The task has failed: VM_IS_PROTECTED"
	for name, test := range map[string]struct {
		attached bool
		request  string
		want     string
	}{
		"of the virtual machine": {false, "DELETE vms/{id}", "the last attempt to delete the virtual machine failed: "},
		"of a volume group":      {true, "POST volume-groups/{id}/$actions/detach-vm", `the last attempt to detach the volume group "`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{TaskRequests: 2})
			d := w.connect(t)
			created := patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
			if test.attached {
				w.cloud.Attach(created.ID)
			}
			id := identity
			id.ProviderID = created.ProviderID
			remove := func() (driver.Instance, error) {
				if err := d.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				return d.Get(t.Context(), id)
			}
			w.cloud.FailNext(nutanixfake.Fault{Removal: "VM_IS_PROTECTED"})
			for n := range 10 {
				found, err := remove()
				if err != nil || n > 3 && (!strings.HasPrefix(found.Message, test.want) || !strings.HasSuffix(found.Message, reason)) {
					t.Errorf("call %d: got %q and %v, want %q with the reason", n, found.Message, err, test.want)
				}
			}
			if requests := w.cloud.Counts()[test.request]; requests != 1 {
				t.Errorf("it was requested %d times", requests)
			}
			w.clock.Advance(time.Minute)
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				_, err = remove()
			}
			if !driver.IsNotFound(err) {
				t.Errorf("a minute later: got %v", err)
			}
		})
	}
}

// TestAFailedRemovalOfACreationIsTold: nothing else is tried before the virtual machine that cannot be started is gone.
func TestAFailedRemovalOfACreationIsTold(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]nutanixfake.Fault{
		"that could not be started": {Start: "NO_HOST_RESOURCES"}, "that a creation left": {Task: "VM_CREATE_FAILED", LeavesVM: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{})
			d := w.connect(t)
			w.cloud.FailNext(fault)
			w.cloud.FailNext(nutanixfake.Fault{Removal: "VM_IS_PROTECTED"})
			var err error
			for range 10 {
				_, err = d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
			}
			if !driver.IsUnfinished(err) || !strings.HasSuffix(err.Error(), "the last attempt to delete the virtual machine failed: VMM-10000: The task has failed: VM_IS_PROTECTED") {
				t.Errorf("got %v", err)
			}
			w.clock.Advance(time.Minute)
			patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
			if left := w.cloud.Leftovers(); len(left) != 1 {
				t.Errorf("%q exist, want one virtual machine", left)
			}
		})
	}
}

// TestAVirtualMachineWithoutAnID is an answer that cannot be used, and not an absence.
func TestAVirtualMachineWithoutAnID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		w.cloud.ServeHTTP(answer, r)
		rw.WriteHeader(answer.Code)
		_, _ = rw.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(created.ID), []byte("../x")))
	})
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("reading: got %v", err)
	}
	if err := d.Delete(t.Context(), identity); err == nil {
		t.Error("it was deleted")
	}
	for instance, err := range d.List(t.Context(), driver.Owner{}) {
		if err == nil {
			t.Errorf("listed %+v", instance)
		}
	}
}

// TestManyVirtualMachinesOfOneUID: each is read, so their number is bounded.
func TestManyVirtualMachinesOfOneUID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	for range 11 {
		w.cloud.Clone(created.ID, identity.Name)
	}
	if err := d.Delete(t.Context(), identity); err == nil || !strings.Contains(err.Error(), "more than 10 virtual machines") {
		t.Errorf("got %v", err)
	}
}

// TestVolumeGroupsHaveIDs: a server that a Secret names chooses them, and they are not kept if they are none.
func TestVolumeGroupsHaveIDs(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.AttachGroup(created.ID, strings.Repeat("x", 1<<20))
	id := identity
	id.ProviderID = created.ProviderID
	if err := d.Delete(t.Context(), id); err == nil || driver.IsNotFound(err) || !strings.Contains(err.Error(), "a volume group without an ID") {
		t.Errorf("got %v", err)
	}
	for operation := range w.cloud.Counts() {
		if strings.Contains(operation, "volume-groups") || strings.HasPrefix(operation, "DELETE") {
			t.Errorf("%s was requested", operation)
		}
	}
	if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Running {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestListStopsReadingTasks that cannot be read: each may take as long as a call may.
func TestListStopsReadingTasks(t *testing.T) {
	t.Parallel()
	broken := false
	w := newEnv(t, nutanixfake.Options{TaskRequests: 40, Faults: func(method string) nutanixfake.Fault {
		if broken && method == "GET tasks/{id}" {
			return nutanixfake.Fault{Status: http.StatusServiceUnavailable}
		}
		return nutanixfake.Fault{}
	}})
	d := w.connect(t)
	var created []driver.Identity
	for n := range 3 {
		id := identity
		id.UID, id.Name = types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-00000000000%d", n)), fmt.Sprintf("worker-%d", n)
		id.ProviderID = patiently(t, d, newRequest(id, newConfig(t, unchanged))).ProviderID
		created = append(created, id)
	}
	for _, id := range created {
		if err := d.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Advance(2 * time.Minute)
	before := w.cloud.Counts()["GET tasks/{id}"]
	broken = true
	listed := 0
	for found, err := range d.List(t.Context(), driver.Owner{}) {
		if listed++; err != nil || found.State != driver.Stopping {
			t.Errorf("got %s and %v, want %s", found.State, err, driver.Stopping)
		}
	}
	if reads := w.cloud.Counts()["GET tasks/{id}"] - before; listed != 3 || reads != 1 {
		t.Errorf("%d virtual machines, and %d reads of tasks", listed, reads)
	}
}
