// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
)

// TestNotFoundOfAProxyIsTransient: while the address of a service is wrong, every answer is 404. A server then counts
// neither as absent nor as deleted.
func TestNotFoundOfAProxyIsTransient(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"<html><h1>404 Not Found</h1></html>", "", `{"message": "no Route matched with those values"}`, `{"error": {"code": 404, "message": "no such backend"}}`} {
		r := newWorld(t)
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
