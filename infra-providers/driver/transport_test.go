// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

func TestServerOfATenant(t *testing.T) {
	t.Parallel()
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+strings.Repeat("a", 2<<10)+`"`)
	}))
	defer long.Close()
	server := driver.Server{Timeout: time.Minute, LongAnswers: httplimit.NewCloudSeats(), Limit: driver.LimitJSON(1<<10, 10)}
	if _, err := read(server, long.URL); err != nil {
		t.Errorf("an answer of the operator's server: %v", err)
	}

	server.OfTenant = true
	if _, err := read(server, long.URL); !is[*httplimit.TooLargeError](err) {
		t.Errorf("an answer beyond the limit: %v", err)
	}
	if _, err := read(server, "http://169.254.169.254/latest/meta-data"); !is[*egress.ForbiddenError](err) {
		t.Errorf("a request to the metadata service: %v", err)
	}
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

func read(from driver.Server, url string) ([]byte, error) {
	transport := from.Transport()
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}
