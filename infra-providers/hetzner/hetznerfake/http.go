// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

//go:embed openapi.json
var description []byte

// request is a request that conforms to the description.
type request struct {
	id    int64
	query url.Values
	body  []byte
}

// refusal is an error answer.
type refusal struct {
	status  int
	code    string
	message string
	// field is at fault in invalid_input.
	field string
}

// handlers are the operations, by method and path of the description.
var handlers = map[string]func(*Cloud, request) (any, *refusal){
	"GET /servers":         listServers,
	"POST /servers":        createServer,
	"GET /servers/{id}":    getServer,
	"PUT /servers/{id}":    updateServer,
	"DELETE /servers/{id}": deleteServer,
	"POST /servers/{id}/actions/attach_to_network": attachToNetwork,
	"POST /servers/{id}/actions/enable_backup":     enableBackup,
	"POST /servers/{id}/actions/poweron":           powerOn,
	"POST /servers/{id}/actions/reset":             reset,
	"GET /volumes":                                 listVolumes,
	"POST /volumes":                                createVolume,
	"PUT /volumes/{id}":                            updateVolume,
	"DELETE /volumes/{id}":                         deleteVolume,
	"POST /volumes/{id}/actions/detach":            detachVolume,
	"GET /server_types":                            listServerTypes,
	"GET /images":                                  listImages,
	"GET /images/{id}":                             getImage,
	"GET /networks":                                listNetworks,
	"GET /networks/{id}":                           getNetwork,
	"GET /firewalls":                               listFirewalls,
	"GET /firewalls/{id}":                          getFirewall,
	"GET /ssh_keys":                                listSSHKeys,
	"GET /ssh_keys/{id}":                           getSSHKey,
	"GET /placement_groups":                        listPlacementGroups,
	"POST /placement_groups":                       createPlacementGroup,
	"GET /placement_groups/{id}":                   getPlacementGroup,
	"GET /primary_ips":                             listPrimaryIPs,
	"GET /primary_ips/{id}":                        getPrimaryIP,
}

func newRouter(endpoint string) (routers.Router, error) {
	document, err := openapi3.NewLoader().LoadFromData(description)
	if err != nil {
		return nil, err
	}
	document.Servers = openapi3.Servers{{URL: endpoint}}
	return legacy.NewRouter(document)
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.finishActions()
	c.calls = append(c.calls, withoutIDs(r.Method, r.URL.Path))
	body, refused := c.answer(r)
	if refused == nil && r.Method != http.MethodGet && c.faults.lose() {
		// The request was carried out and its answer is lost.
		panic(http.ErrAbortHandler)
	}
	write(w, body, refused)
}

func (c *Cloud) answer(r *http.Request) (any, *refusal) {
	if refused := c.faults.refuse(r.Method, r.URL.Path); refused != nil {
		return nil, refused
	}
	if c.faults.held != nil && withoutIDs(r.Method, r.URL.Path) == c.faults.held.operation {
		c.faults.held.keep(r)
	}
	if r.Header.Get("Authorization") != "Bearer "+Token {
		return nil, &refusal{status: http.StatusUnauthorized, code: "unauthorized", message: "unable to authenticate"}
	}
	if c.options.ReadOnly && r.Method != http.MethodGet {
		return nil, &refusal{status: http.StatusForbidden, code: "token_readonly", message: "the token is only allowed to read"}
	}
	operation, requested, err := c.validate(r)
	if err != nil {
		c.violations = append(c.violations, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	handler, ok := handlers[operation]
	if !ok {
		return nil, &refusal{status: http.StatusNotImplemented, code: "unsupported_error", message: operation}
	}
	return handler(c, requested)
}

// validate checks a request against the description, and its query for unknown parameters.
func (c *Cloud) validate(r *http.Request) (operation string, requested request, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", requested, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Scheme, r.URL.Host = "http", r.Host
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return "", requested, err
	}
	err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
	if err != nil {
		return "", requested, err
	}
	for key := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", key) == nil {
			return "", requested, fmt.Errorf("query parameter %q is not described", key)
		}
	}
	requested = request{query: r.URL.Query(), body: body}
	if id, ok := params["id"]; ok {
		requested.id, err = strconv.ParseInt(id, 10, 64)
	}
	return route.Method + " " + route.Path, requested, err
}

func write(w http.ResponseWriter, body any, refused *refusal) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("RateLimit-Limit", "3600")
	header.Set("RateLimit-Remaining", "3000")
	header.Set("RateLimit-Reset", strconv.FormatInt(time.Now().Add(10*time.Minute).Unix(), 10))
	header.Set("X-Correlation-Id", strconv.FormatInt(time.Now().UnixNano(), 36))
	switch {
	case refused != nil:
		if refused.status == http.StatusTooManyRequests {
			header.Set("RateLimit-Remaining", "0")
			header.Set("RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
		}
		body = refused.body()
		w.WriteHeader(refused.status)
	case body == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// A write that fails is a lost answer.
	_ = json.NewEncoder(w).Encode(body)
}

func (r *refusal) body() any {
	answer := map[string]any{"code": r.code, "message": r.message}
	if r.field != "" {
		answer["details"] = map[string]any{"fields": []any{map[string]any{"name": r.field, "messages": []string{r.message}}}}
	}
	return map[string]any{"error": answer}
}

// notFound, badInput and locked are the most common refusals.
func notFound(what string) *refusal {
	return &refusal{status: http.StatusNotFound, code: "not_found", message: what + " not found"}
}

func badInput(field, message string) *refusal {
	return &refusal{status: http.StatusUnprocessableEntity, code: "invalid_input", message: fmt.Sprintf("invalid input in field '%s'", field) + ": " + message, field: field}
}

func locked() *refusal {
	return &refusal{status: http.StatusLocked, code: "locked", message: "item is locked, another action is running"}
}

// faults are the failures of the next requests.
type faults struct {
	// any is the answer to the next requests, creation that to the next creation of a server.
	any                 []*refusal
	creation            *refusal
	losing              bool
	hiding              bool
	ignoreLabelSelector bool
	// held is the request that is carried out later.
	held *delayedRequest
	// hiddenGroupLists counts the next lists of placement groups that are empty.
	hiddenGroupLists int
}

func (f *faults) refuse(method, path string) *refusal {
	if len(f.any) > 0 {
		next := f.any[0]
		f.any = slices.Delete(f.any, 0, 1)
		return next
	}
	if f.creation != nil && withoutIDs(method, path) == "POST /servers" {
		next := f.creation
		f.creation = nil
		return next
	}
	return nil
}

func (f *faults) lose() bool {
	losing := f.losing
	f.losing = false
	return losing
}

// Refuse answers the next request with a code.
func (c *Cloud) Refuse(status int, code string) { c.RefuseNext(1, status, code) }

// RefuseNext answers the next requests with a code.
func (c *Cloud) RefuseNext(count, status int, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range count {
		c.faults.any = append(c.faults.any, &refusal{status: status, code: code, message: "injected error"})
	}
}

// RefuseServer answers the next creation of a server with a code, and with a field for invalid_input.
func (c *Cloud) RefuseServer(status int, code, field string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.creation = &refusal{status: status, code: code, message: "injected error", field: field}
}

// Lose loses the answer of the next request that changes something, after it took effect.
func (c *Cloud) Lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.losing = true
}

// Hide omits the next server from lists by label.
func (c *Cloud) Hide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.hiding = true
}

// HideVolumes returns an empty list of volumes for the next list by label.
func (c *Cloud) HideVolumes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.ignoreLabelSelector = true
}
