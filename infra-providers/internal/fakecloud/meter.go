// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"sync"
)

var (
	soapMethod = regexp.MustCompile(`<(?:\w+:)?Body[^>]*><(?:\w+:)?(\w+)`)
	// anID is a part of a path that names one thing.
	anID = regexp.MustCompile(`/([0-9]+|[0-9a-f]{8}-[0-9a-f-]{27})(/|$)`)
)

// meter counts the calls of an API before it passes them on.
type meter struct {
	mu     sync.Mutex
	next   http.Handler
	counts map[string]int
}

func (m *meter) pass(to http.Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next, m.counts = to, map[string]int{}
}

func (m *meter) calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// ServeHTTP implements http.Handler.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.mu.Lock()
	next := m.next
	m.counts[operation(r, body)]++
	m.mu.Unlock()
	next.ServeHTTP(w, r)
}

// operation names a call: by EC2's action, by SOAP's method, or by HTTP's method and the path without IDs.
func operation(r *http.Request, body []byte) string {
	if r.Method != http.MethodPost {
		return r.Method + " " + anID.ReplaceAllString(r.URL.Path, "/{id}$2")
	}
	if found := soapMethod.FindSubmatch(body); found != nil {
		return string(found[1])
	}
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
		if form.Has("InstanceId.1") {
			return form.Get("Action") + " by ID"
		}
		return form.Get("Action")
	}
	return r.Method + " " + anID.ReplaceAllString(r.URL.Path, "/{id}$2")
}
