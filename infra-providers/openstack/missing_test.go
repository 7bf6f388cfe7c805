// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
)

// TestAProxyThatFindsNothingSaysNothingAboutTheServer: while the address of a service is wrong everything is 404 there,
// and neither is a machine missing nor is anything of it deleted.
func TestAProxyThatFindsNothingSaysNothingAboutTheServer(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"<html><h1>404 Not Found</h1></html>", "", `{"message": "no Route matched with those values"}`, `{"error": {"code": 404, "message": "no such backend"}}`} {
		r := newRig(t)
		made := insist(t, r.connect(t), asking(t, small()))
		driven := r.connect(t)
		if _, err := driven.Get(t.Context(), made.Identity); err != nil {
			t.Fatal(err)
		}
		r.faults.Fail(called(http.MethodGet, "/servers/"), http.StatusNotFound, page)
		if _, err := driven.Get(t.Context(), made.Identity); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading through a proxy that answers %q: got %v", page, err)
		}
		r.faults.Fail(called(http.MethodDelete, "/servers/"), http.StatusNotFound, page)
		if err := driven.Delete(t.Context(), made.Identity); err == nil {
			t.Errorf("the server counts as deleted through a proxy that answers %q", page)
		}
		r.faults.Fail(called(http.MethodDelete, "/ports/"), http.StatusNotFound, page)
		if err := driven.Delete(t.Context(), made.Identity); err == nil {
			t.Errorf("the port counts as deleted through a proxy that answers %q", page)
		}
		r.settle(t)
		if err := driven.Delete(t.Context(), made.Identity); err != nil {
			t.Errorf("deleting once the service is back: %v", err)
		}
	}
}

func called(method, path string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == method && strings.Contains(request.URL.Path, path)
	}
}
