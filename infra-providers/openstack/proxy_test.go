// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestNotFoundOfAProxyIsTransient: while the address of a service is wrong, every answer is 404. A server then counts
// neither as absent nor as deleted.
func TestNotFoundOfAProxyIsTransient(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"<html><h1>404 Not Found</h1></html>", "", `{"message": "no Route matched with those values"}`, `{"error": {"code": 404, "message": "no such backend"}}`} {
		r := newEnv(t)
		created := mustCreate(t, r.connect(t), newRequest(t, minimalSpec()))
		d := r.connect(t)
		if _, err := d.Get(t.Context(), created.Identity); err != nil {
			t.Fatal(err)
		}
		r.faults.Fail(called(http.MethodGet, "/servers/"), http.StatusNotFound, page)
		if _, err := d.Get(t.Context(), created.Identity); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading through a proxy that answers %q: got %v", page, err)
		}
		r.faults.Fail(called(http.MethodDelete, "/servers/"), http.StatusNotFound, page)
		if err := d.Delete(t.Context(), created.Identity); err == nil {
			t.Errorf("the server counts as deleted through a proxy that answers %q", page)
		}
		r.faults.Fail(called(http.MethodDelete, "/ports/"), http.StatusNotFound, page)
		if err := d.Delete(t.Context(), created.Identity); err == nil {
			t.Errorf("the port counts as deleted through a proxy that answers %q", page)
		}
		r.awaitStates(t)
		if err := d.Delete(t.Context(), created.Identity); err != nil {
			t.Errorf("deleting once the service is back: %v", err)
		}
	}
}

func called(method, path string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == method && strings.Contains(request.URL.Path, path)
	}
}

// TestCreationRefusedByAProxyIsTransient: whoever waits for a service to come back would otherwise have to replace the Machine.
func TestCreationRefusedByAProxyIsTransient(t *testing.T) {
	t.Parallel()
	const page = "<html><h1>404 Not Found</h1></html>"
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		for _, kind := range []string{"servers", "ports", "floatingips"} {
			r := newEnv(t)
			r.faults.Fail(openstackfake.Creates(kind), status, page)
			if _, err := r.connect(t).Create(t.Context(), newRequest(t, fullSpec())); err == nil || driver.IsInvalidConfiguration(err) {
				t.Errorf("a proxy's %d instead of one of the %s: got %v", status, kind, err)
			}
		}
	}
	r, spec := newEnv(t), minimalSpec()
	spec.Image.Name, spec.Image.ID = "", "00000000-0000-4000-8000-000000000abc"
	for _, answer := range []string{page, `{"message": "no Route matched with those values"}`} {
		r.faults.Fail(called(http.MethodGet, "/images/"), http.StatusNotFound, answer)
		if _, err := r.connect(t).Create(t.Context(), newRequest(t, spec)); err == nil || driver.IsInvalidConfiguration(err) {
			t.Errorf("a proxy instead of the image: got %v", err)
		}
	}
	if _, err := r.connect(t).Create(t.Context(), newRequest(t, spec)); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an image that does not exist: got %v", err)
	}
}

// TestFloatingIPIsDeletedAfterAnAnswerOfAProxy: a machine is gone once nothing of it is left.
func TestFloatingIPIsDeletedAfterAnAnswerOfAProxy(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	created := mustCreate(t, r.connect(t), newRequest(t, fullSpec()))
	d := r.connect(t)
	for range 2 {
		r.faults.Fail(func(request *http.Request) bool {
			return request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/floatingips")
		}, http.StatusNotFound, "<html><h1>404 Not Found</h1></html>")
		if err := d.Delete(t.Context(), created.Identity); err == nil {
			t.Errorf("the machine counts as deleted with %q", r.Leftovers())
		}
		r.awaitStates(t)
	}
	if err := d.Delete(t.Context(), created.Identity); err != nil {
		t.Errorf("deleting once the service is back: %v", err)
	}
	r.awaitStates(t)
	for _, thing := range r.Leftovers() {
		if strings.HasPrefix(thing, "floatingips") {
			t.Errorf("%s is left", thing)
		}
	}
}

// TestVersionsOfAProxyAreTransient: at the first login, a proxy answers instead of a service that is asked for its versions.
// The region of the machine is not invalid then, and nothing in it counts as missing.
func TestVersionsOfAProxyAreTransient(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"<html><h1>Maintenance</h1></html>", `{"versions": [{"id": "v2.`, `{"id": ""}`, ""} {
		r := newEnv(t)
		id := mustCreate(t, r.connect(t), newRequest(t, minimalSpec())).Identity
		id.ProviderID = "" // the answer to the creation was lost
		for name, call := range map[string]func(driver.Driver[openstack.InstanceConfig]) error{
			"creating": func(d driver.Driver[openstack.InstanceConfig]) error {
				_, err := d.Create(t.Context(), newRequest(t, minimalSpec()))
				return err
			},
			"reading":  func(d driver.Driver[openstack.InstanceConfig]) error { _, err := d.Get(t.Context(), id); return err },
			"deleting": func(d driver.Driver[openstack.InstanceConfig]) error { return d.Delete(t.Context(), id) },
		} {
			r.faults.Fail(called(http.MethodGet, "/network/"), http.StatusOK, page)
			if err := call(r.connect(t)); err == nil || driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
				t.Errorf("%s while a proxy answers %q: got %v", name, page, err)
			}
		}
		r.only(t, "servers")
	}
}
