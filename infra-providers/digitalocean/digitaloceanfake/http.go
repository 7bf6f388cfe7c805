// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

//go:embed openapi.json
var description []byte

// request is a request that conforms to the description.
type request struct {
	// id is the last parameter of the path.
	id    string
	query url.Values
	body  []byte
	// url is the whole URL, for links to other pages.
	url *url.URL
}

type object = map[string]any

// refusal is an error answer.
type refusal struct {
	status  int
	code    string
	message string
	// header has further headers.
	header map[string]string
}

// handlers are the operations, by method and path of the description.
var handlers = map[string]func(*Cloud, request) (any, *refusal){
	"GET /v2/account":                              getAccount,
	"GET /v2/account/keys":                         listKeys,
	"POST /v2/account/keys":                        createKey,
	"GET /v2/account/keys/{ssh_key_identifier}":    getKey,
	"PUT /v2/account/keys/{ssh_key_identifier}":    updateKey,
	"DELETE /v2/account/keys/{ssh_key_identifier}": deleteKey,
	"GET /v2/droplets":                             listDroplets,
	"POST /v2/droplets":                            createDroplet,
	"GET /v2/droplets/{droplet_id}":                getDroplet,
	"DELETE /v2/droplets/{droplet_id}":             deleteDroplet,
	"POST /v2/droplets/{droplet_id}/actions":       actOnDroplet,
	"GET /v2/images":                               listImages,
	"GET /v2/images/{image_id}":                    getImage,
	"GET /v2/regions":                              listRegions,
	"GET /v2/reserved_ips":                         listReservedIPs,
	"POST /v2/reserved_ips":                        createReservedIP,
	"GET /v2/reserved_ips/{reserved_ip}":           getReservedIP,
	"DELETE /v2/reserved_ips/{reserved_ip}":        deleteReservedIP,
	"GET /v2/sizes":                                listSizes,
	"POST /v2/tags":                                createTag,
	"GET /v2/tags/{tag_id}":                        getTag,
	"DELETE /v2/tags/{tag_id}":                     deleteTag,
	"POST /v2/tags/{tag_id}/resources":             tagResources,
	"DELETE /v2/tags/{tag_id}/resources":           untagResources,
	"GET /v2/volumes":                              listVolumes,
	"POST /v2/volumes":                             createVolume,
	"GET /v2/volumes/{volume_id}":                  getVolume,
	"DELETE /v2/volumes/{volume_id}":               deleteVolume,
	"POST /v2/volumes/{volume_id}/actions":         actOnVolume,
	"GET /v2/vpcs/{vpc_id}":                        getVPC,
}

// statuses are those of answers; 200 if an operation is missing.
var statuses = map[string]int{
	"POST /v2/account/keys":                  http.StatusCreated,
	"POST /v2/droplets":                      http.StatusAccepted,
	"POST /v2/droplets/{droplet_id}/actions": http.StatusCreated,
	"POST /v2/reserved_ips":                  http.StatusAccepted,
	"POST /v2/tags":                          http.StatusCreated,
	"POST /v2/volumes":                       http.StatusCreated,
	"POST /v2/volumes/{volume_id}/actions":   http.StatusAccepted,
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
	status, body, refused := c.answer(r)
	if refused == nil && c.faults.lose(withoutIDs(r.Method, r.URL.Path)) {
		// The request was carried out and its answer is lost.
		panic(http.ErrAbortHandler)
	}
	c.write(w, status, body, refused)
}

func (c *Cloud) answer(r *http.Request) (status int, body []byte, refused *refusal) {
	operation := withoutIDs(r.Method, r.URL.Path)
	if refused := c.throttle(operation); refused != nil {
		return 0, nil, refused
	}
	if refused := c.faults.refuse(operation); refused != nil {
		return 0, nil, refused
	}
	if c.faults.held != nil && operation == c.faults.held.operation {
		c.faults.held.keep(r)
	}
	if r.Header.Get("Authorization") != "Bearer "+Token {
		return 0, nil, &refusal{status: http.StatusUnauthorized, code: "unauthorized", message: "Unable to authenticate you"}
	}
	input, requested, err := c.validate(r)
	if err != nil {
		c.violations = append(c.violations, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
		return 0, nil, &refusal{status: http.StatusBadRequest, code: "bad_request", message: err.Error()}
	}
	described := input.Route.Method + " " + input.Route.Path
	answer, refused := handlers[described](c, requested)
	if refused != nil {
		return 0, nil, refused
	}
	status = http.StatusNoContent
	if answer != nil {
		if status = statuses[described]; status == 0 {
			status = http.StatusOK
		}
		if body, err = json.Marshal(answer); err != nil {
			c.violations = append(c.violations, err.Error())
		}
	}
	c.validateAnswer(input, status, body)
	return status, body, nil
}

// validate checks a request against the description, and its query for unknown parameters.
func (c *Cloud) validate(r *http.Request) (input *openapi3filter.RequestValidationInput, requested request, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, requested, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Scheme, r.URL.Host = "http", r.Host
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return nil, requested, err
	}
	input = &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	}
	if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
		return nil, requested, err
	}
	for key := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", key) == nil {
			return nil, requested, fmt.Errorf("query parameter %q is not described", key)
		}
	}
	requested = request{query: r.URL.Query(), body: body, url: r.URL}
	for _, value := range params {
		requested.id = value
	}
	return input, requested, nil
}

// validateAnswer checks an answer against the description.
func (c *Cloud) validateAnswer(input *openapi3filter.RequestValidationInput, status int, body []byte) {
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: status, Header: http.Header{"Content-Type": {"application/json"}},
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	answer.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(context.Background(), answer); err != nil {
		c.violations = append(c.violations, fmt.Sprintf("answer of %s %s: %v", input.Route.Method, input.Route.Path, err))
	}
}

func (c *Cloud) write(w http.ResponseWriter, status int, body []byte, refused *refusal) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("RateLimit-Limit", strconv.Itoa(perHour))
	header.Set("RateLimit-Remaining", strconv.Itoa(max(0, perHour-len(c.sent.all))))
	header.Set("RateLimit-Reset", strconv.FormatInt(c.sent.reset(c.options.Now()).Unix(), 10))
	header.Set("X-Request-Id", strconv.Itoa(c.requests))
	if refused != nil {
		status = refused.status
		for key, value := range refused.header {
			header.Set(key, value)
		}
		// It cannot fail: it has strings only.
		body, _ = json.Marshal(object{"id": refused.code, "message": refused.message, "request_id": fmt.Sprintf("request-%d", c.requests)})
	}
	w.WriteHeader(status)
	// A write that fails is a lost answer.
	_, _ = w.Write(body)
}

// unprocessable is the only status of a request that is refused because of its content, and conflict that of a name in use.
func unprocessable(message string) *refusal {
	return &refusal{status: http.StatusUnprocessableEntity, code: "unprocessable_entity", message: message}
}

func conflict(message string) *refusal {
	return &refusal{status: http.StatusConflict, code: "conflict", message: message}
}

func notFound() *refusal {
	return &refusal{status: http.StatusNotFound, code: "not_found", message: "The resource you requested could not be found."}
}

func pendingEvent() *refusal { return unprocessable("Droplet already has a pending event.") }

// decode decodes a body that conforms to the description.
func decode[T any](r request) (body T) {
	// It was checked before.
	_ = json.Unmarshal(r.body, &body)
	return body
}

// page returns one page of a list, with links.
func page[T any](r request, name string, all []T, render func(T) object) object {
	number, size := 1, 20
	if n, err := strconv.Atoi(r.query.Get("page")); err == nil {
		number = n
	}
	if n, err := strconv.Atoi(r.query.Get("per_page")); err == nil {
		size = n
	}
	from := min((number-1)*size, len(all))
	to := min(from+size, len(all))
	items := make([]object, 0, to-from)
	for _, item := range all[from:to] {
		items = append(items, render(item))
	}
	links := object{}
	if to < len(all) {
		next := *r.url
		query := r.url.Query()
		query.Set("page", strconv.Itoa(number+1))
		next.RawQuery = query.Encode()
		links["pages"] = object{"next": next.String(), "last": next.String()}
	}
	return object{name: items, "links": links, "meta": object{"total": len(all)}}
}
