// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"drover.io/runtime/httplimit"
)

// TestElementsOfDocumentsAreCounted reads answers with a limit of six elements and 1 KiB, byte by byte.
func TestElementsOfDocumentsAreCounted(t *testing.T) {
	t.Parallel()
	const ok, tooMany, tooLarge = "", "too many", "too large"
	for name, test := range map[string]struct {
		format httplimit.Format
		query  string
		answer string
		want   string
	}{
		"few objects":                      {httplimit.JSON, "", `{"items":[{},{}],"x":1}`, ok},
		"more objects":                     {httplimit.JSON, "", `[{},{},{},{}]`, tooMany},
		"no watch by what a link has":      {httplimit.JSON, "?watch=1", `[1,2,3]` + `[1,2,3]` + `[1,2,3]`, tooMany},
		"a long string":                    {httplimit.JSON, "", `"` + strings.Repeat("x", 1<<10), tooLarge},
		"few tags":                         {httplimit.XML, "", `<?xml version="1.0"?><a><b></b><c/></a>`, ok},
		"more tags":                        {httplimit.XML, "", `<a><b/><b/><b/><b/><b/><b/></a>`, tooMany},
		"more attributes":                  {httplimit.XML, "", `<a b="" c="" d="" e="" f="" g=""/>`, tooMany},
		"more attributes after a >":        {httplimit.XML, "", `<a b=">" c="" d="" e="" f="" g=""/>`, tooMany},
		"end tags are none":                {httplimit.XML, "", `<a><b></b><b></b><b></b><b></b><b></b></a>`, ok},
		"a long text":                      {httplimit.XML, "", `<a>` + strings.Repeat("x", 1<<10), tooLarge},
		"tags of another type of document": {httplimit.JSON, "", `<html><body><h1>404 Not Found</h1></body></html>`, ok},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, test.answer)
			}))
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := httplimit.WrapDocuments(http.DefaultTransport, test.format, 1<<10, 6).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(iotest.OneByteReader(response.Body))
			got := ok
			if _, is := errors.AsType[*httplimit.TooManyElementsError](err); is {
				got = tooMany
			} else if _, is := errors.AsType[*httplimit.TooLargeError](err); is {
				got = tooLarge
			} else if err != nil {
				t.Error(err)
			}
			if err := response.Body.Close(); err != nil || got != test.want {
				t.Errorf("got %q and %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestHoldersShareATransport: the long answers of one holder leave seats for another.
func TestHoldersShareATransport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	}))
	t.Cleanup(server.Close)
	shared := httplimit.NewSeats(4, 10).WrapShared(http.DefaultTransport)
	read := func(holder string) (io.Closer, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // an answer waits until then
		t.Cleanup(cancel)
		request, err := http.NewRequestWithContext(httplimit.WithHolder(ctx, holder), http.MethodGet, server.URL+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := shared.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(response.Body)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.Body, err
	}
	busy := func(err error) bool { _, is := errors.AsType[*httplimit.BusyError](err); return is }
	first, err := read("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := read("a"); !busy(err) {
		t.Errorf("the third long answer of one holder: %v", err)
	}
	if _, err := read("b"); err != nil {
		t.Errorf("the first long answer of another: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = first.Close() })
	if _, err := read("a"); err != nil {
		t.Errorf("while one is closed: %v", err)
	}
}
