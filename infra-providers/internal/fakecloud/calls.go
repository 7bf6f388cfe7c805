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
	"strings"
	"sync"
)

var (
	soapMethod = regexp.MustCompile(`<(?:\w+:)?Body[^>]*><(?:\w+:)?(\w+)`)
	// nameInPath is a part of a path of Compute Engine that is a name.
	nameInPath = regexp.MustCompile(`/(zones|instances|disks|operations|machineTypes)/[a-z0-9-]+`)
	// nameOfResource is the name of a resource of Azure.
	nameOfResource = regexp.MustCompile(`(/(?:virtualMachines|disks|networkInterfaces|publicIPAddresses))/[^/]+`)
	// idInPath is a part of a path that is an ID: a number, a UUID with or without hyphens, which Cloud Director writes after the
	// kind, or anything with a colon, as a fingerprint or a tag.
	idInPath = regexp.MustCompile(`/([0-9]+|[0-9a-f]{32}|(?:v[a-zA-Z]+-)?[0-9a-f]{8}-[0-9a-f-]{27}|[^/]*:[^/]*)(/|$)`)
)

// callCounter counts the calls of an API and forwards them.
type callCounter struct {
	mu     sync.Mutex
	next   http.Handler
	byName map[string]int
}

func (c *callCounter) forwardTo(to http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.byName = to, map[string]int{}
}

func (c *callCounter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName)
}

// ServeHTTP implements http.Handler.
func (c *callCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller closed the connection
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	next := c.next
	c.byName[operation(r, body)]++
	c.mu.Unlock()
	next.ServeHTTP(w, r)
}

// operation names a call: by the action of EC2 or ECS, by SOAP's method, or by HTTP's method and the path without IDs.
func operation(r *http.Request, body []byte) string {
	if action := r.Header.Get("x-acs-action"); action != "" {
		if r.URL.Query().Has("InstanceIds") {
			return action + " by ID"
		}
		return action
	}
	path := idInPath.ReplaceAllString(r.URL.Path, "/{id}$2")
	if strings.HasPrefix(path, "/compute/v1/projects/") {
		return r.Method + " " + nameInPath.ReplaceAllString(path, "/$1/{name}")
	}
	if strings.HasPrefix(path, "/subscriptions/") {
		return r.Method + " " + nameOfResource.ReplaceAllString(path[strings.LastIndex(path, "/providers/")+1:], "$1/{name}")
	}
	if r.Method != http.MethodPost {
		return r.Method + " " + path
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
	return r.Method + " " + path
}
