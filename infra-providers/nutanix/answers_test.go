// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
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
	if _, err := create(t, d, req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want a transient error", err)
	}
	away = false
	w.advance(2 * time.Minute)
	if _, err := create(t, d, req); err != nil {
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
	if _, err := create(t, w.connect(t), newRequest(identity, config)); err != nil {
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
	if _, err := create(t, w.connect(t), newRequest(identity, newConfig(t, unchanged))); err == nil || err.Error() != "VMM-1: the host … is busy" {
		t.Errorf("got %v", err)
	}
}

// TestAVolumeGroupIsAttachedAgain while the virtual machine is being deleted, and is detached again.
func TestAVolumeGroupIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := create(t, d, newRequest(identity, newConfig(t, unchanged)))
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

// TestAVirtualMachineWithoutAnID is an answer that cannot be used, and not an absence.
func TestAVirtualMachineWithoutAnID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	d := w.connect(t)
	created, err := create(t, d, newRequest(identity, newConfig(t, unchanged)))
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
	created, err := create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	for range 101 {
		w.cloud.Clone(created.ID, identity.Name)
	}
	if err := d.Delete(t.Context(), identity); err == nil || !strings.Contains(err.Error(), "more than 100 virtual machines") {
		t.Errorf("got %v", err)
	}
}
