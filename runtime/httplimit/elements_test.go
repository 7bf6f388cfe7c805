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

// TestElementsAreCounted reads answers with a limit of six elements.
func TestElementsAreCounted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Type"))
		_, _ = io.WriteString(w, r.Header.Get("Answer"))
	}))
	t.Cleanup(server.Close)
	c := &http.Client{Transport: httplimit.WrapJSON(http.DefaultTransport, 1<<10, 6)}
	const json = "application/json"
	for name, test := range map[string]struct {
		query, kind, answer string
		tooMany, refused    bool
	}{
		"few":                                   {"", json, `{"items":[{},{}],"x":1}`, false, false},
		"exactly as many":                       {"", json, `[{},{},1]`, false, false},
		"more objects":                          {"", json, `[{},{},{},{}]`, true, false},
		"more arrays":                           {"", json, `[[[[[[[]]]]]]]`, true, false},
		"more numbers":                          {"", json, `[1,2,3,4,5,6,7]`, true, false},
		"in a string they are none":             {"", json, `{"x":"[[[[,,,,{{{{\"[[[[\\"}`, false, false},
		"after a string that ends in backslash": {"", json, `{"x":"\\","y":[[[[[]]]]]}`, true, false},
		"with a charset":                        {"", json + "; charset=utf-8", `[1,2,3,4,5,6,7]`, true, false},
		"events of a watch, each by itself":     {"?watch=1", json + ";stream=watch", `{"o":[1,2]}` + `{"o":[1,2]}` + `{"o":[1,2]}`, false, false},
		"a list has no events":                  {"", json, `{"o":[1,2]}` + `{"o":[1,2]}` + `{"o":[1,2]}`, true, false},
		"an event with more":                    {"?watch=1", json, `{"o":[1,2]}` + `{"o":[1,2,3,4,5,6]}`, true, false},
		"an event of empty objects":             {"?watch=1", json, `{"o":[{},{},{},{}]}`, true, false},
		"text":                                  {"", "text/plain; charset=utf-8", `not found`, false, false},
		"a type that cannot be read":            {"", "application/", `[1]`, false, true},
		"JSON with a broken parameter":          {"?watch=1", json + ";x;/", `{"o":[1,2,3,4,5,6,7]}`, true, false},
		"no type":                               {"", "", `[1,2,3,4,5,6,7]`, true, false},
		"protobuf with a broken parameter":      {"?watch=1", "application/vnd.kubernetes.protobuf;stream=watch;/", "k8s", false, true},
		"protobuf in capitals":                  {"?watch=1", " Application/VND.kubernetes.protobuf ;a=b", "k8s", false, true},
		"protobuf":                              {"", "application/vnd.kubernetes.protobuf", "k8s", false, true},
		"YAML":                                  {"", "application/yaml", "a: b", false, true},
		"CBOR":                                  {"", "application/cbor", "a", false, true},
		"events in CBOR":                        {"?watch=1", "application/cbor-seq", "a", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Type", test.kind)
			request.Header.Set("Answer", test.answer)
			got, err := read(c, request)
			_, tooMany := errors.AsType[*httplimit.TooManyElementsError](err)
			_, refused := errors.AsType[*httplimit.ContentTypeError](err)
			if tooMany != test.tooMany || refused != test.refused || (err != nil) != (tooMany || refused) {
				t.Errorf("got %v", err)
			}
			if err == nil && got != test.answer {
				t.Errorf("read %q", got)
			}
		})
	}
}

// TestEventsAreBounded reads answers with a limit of eight bytes.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(r.Header.Get("Answer"), "|", "\n"))
	}))
	t.Cleanup(server.Close)
	c := &http.Client{Transport: httplimit.WrapJSON(http.DefaultTransport, 8, 100)}
	for name, test := range map[string]struct {
		query, answer string
		tooLarge      bool
	}{
		"an answer of exactly the limit":      {"", `{"a":12}`, false},
		"a longer one":                        {"", `{"a":123}`, true},
		"a watch without end":                 {"?watch=true", `{"a":1}|{"a":2}|{"a":3}|{"a":4}|`, false},
		"an event that is too large":          {"?watch=1", `{"a":1}|{"a":"}}"}`, true},
		"an event with line breaks inside":    {"?watch=1", `{|"a":1||}`, true},
		"an event without anything but space": {"?watch=1", `{}|||||||||`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Answer", test.answer)
			_, err = read(c, request)
			if _, tooLarge := errors.AsType[*httplimit.TooLargeError](err); tooLarge != test.tooLarge || (err != nil) != tooLarge {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLongEventsAreNotRead: each watch holds the event that it reads, and any number of watches have one at the same time.
func TestLongEventsAreNotRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"a":"`+strings.Repeat("x", 5<<20)+`"}`)
	}))
	t.Cleanup(server.Close)
	c := &http.Client{Transport: httplimit.WrapJSON(http.DefaultTransport, 64<<20, 100)}
	for query, refused := range map[string]bool{"": false, "?watch=true": true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = read(c, request)
		if _, tooLarge := errors.AsType[*httplimit.TooLargeError](err); tooLarge != refused {
			t.Errorf("%q: got %v", query, err)
		}
	}
}

// TestServerCannotChooseTheDecoder: client-go chooses the decoder of a watch by the type, however broken it is.
func TestServerCannotChooseTheDecoder(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"application/json;stream=watch;/": "application/json", "": "application/json", "text/plain; charset=utf-8": "text/plain; charset=utf-8",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", sent) }))
		t.Cleanup(server.Close)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := httplimit.WrapJSON(http.DefaultTransport, 8, 8).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("Content-Type"); got != want {
			t.Errorf("%q is shown as %q, want %q", sent, got, want)
		}
		_ = response.Body.Close()
	}
}

// TestErrorAnswersAreBounded: messages of API servers are written into conditions.
func TestErrorAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<17))
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = read(&http.Client{Transport: httplimit.WrapJSON(http.DefaultTransport, 1<<20, 100)}, request)
	if large, is := errors.AsType[*httplimit.TooLargeError](err); !is || large.Limit != 1<<16 {
		t.Errorf("got %v", err)
	}
}
