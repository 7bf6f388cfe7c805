// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover.io/runtime/httplimit"
)

// TestLongAnswersTakeSeats reads answers of eight bytes, where six are short, at the same time.
func TestLongAnswersTakeSeats(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", len(r.URL.Query().Get("size"))))
	}))
	t.Cleanup(server.Close)
	seats := httplimit.NewSeats(4, 6)
	open := map[string][]io.Closer{}
	get := func(holder, query string) error {
		t.Helper()
		c := &http.Client{Transport: seats.Wrap(http.DefaultTransport, holder)}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		open[holder] = append(open[holder], response.Body)
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	const short, long, watch = "?size=xxxxxx", "?size=xxxxxxxx", "?watch=1&size=xxxxxxxx"
	for step, test := range []struct {
		holder, query string
		busy          bool
	}{
		{"a", long, false}, {"a", long, false},
		{"a", long, true}, // it has as many as are free
		{"a", short, false}, {"a", watch, false},
		{"b", long, false}, {"c", long, false},
		{"d", long, true}, {"d", short, false},
	} {
		if err := get(test.holder, test.query); (err != nil) != test.busy || test.busy && !isBusy(err) {
			t.Errorf("step %d: got %v, want busy %t", step, err, test.busy)
		}
	}
	for _, body := range append(open["a"], open["a"]...) { // closing twice gives back once
		_ = body.Close()
	}
	for step, busy := range []bool{false, true, false} {
		if err := get([]string{"d", "d", "e"}[step], long); isBusy(err) != busy {
			t.Errorf("afterwards, %d: got %v, want busy %t", step, err, busy)
		}
	}
}

func isBusy(err error) bool {
	_, busy := errors.AsType[*httplimit.BusyError](err)
	return busy
}
