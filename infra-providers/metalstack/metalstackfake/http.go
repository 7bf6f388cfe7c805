// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/metal-stack/security"
)

//go:embed metal-api.json
var description []byte

// request is a request that conforms to the description.
type request struct {
	// id is the parameter of the path.
	id   string
	body []byte
}

// refusal is an error answer.
type refusal struct {
	status  int
	message string
}

func badRequest(format string, values ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, values...)}
}

func unprocessable(format string, values ...any) *refusal {
	return &refusal{http.StatusUnprocessableEntity, fmt.Sprintf(format, values...)}
}

func notFound(kind, id string) *refusal {
	return &refusal{http.StatusNotFound, fmt.Sprintf("NotFound no %s with id %q found", kind, id)}
}

// handlers are the operations, by their names in the description.
var handlers = map[string]func(*Cloud, request) (any, *refusal){
	"allocateIP":          allocateIP,
	"allocateMachine":     allocateMachine,
	"findIP":              findIP,
	"findIPs":             findIPs,
	"findLatestImage":     findLatestImage,
	"findMachine":         findMachine,
	"findMachines":        findMachines,
	"findNetwork":         findNetwork,
	"findPartition":       findPartition,
	"findProject":         findProject,
	"findSize":            findSize,
	"freeIP":              freeIP,
	"freeMachine":         freeMachine,
	"getFilesystemLayout": getFilesystemLayout,
	"machineReset":        resetMachine,
	"partitionCapacity":   partitionCapacity,
	"updateIP":            updateIP,
	"updateMachine":       updateMachine,
}

// newRouter returns the router of the description, at any address.
func newRouter() (routers.Router, error) {
	var described openapi2.T
	if err := json.Unmarshal(description, &described); err != nil {
		return nil, err
	}
	document, err := openapi2conv.ToV3(&described)
	if err != nil {
		return nil, err
	}
	document.Servers = nil
	return legacy.NewRouter(document)
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.proceed()
	operation, status, body, refused := c.answer(r)
	if refused == nil && c.faults.lose(operation) {
		// The request was carried out and its answer is lost.
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if refused != nil {
		status = refused.status
		// It cannot fail: it has a text and a number only.
		body, _ = json.Marshal(map[string]any{"statuscode": refused.status, "message": refused.message})
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a write that fails is a lost answer
}

func (c *Cloud) answer(r *http.Request) (operation string, status int, body []byte, refused *refusal) {
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		c.violations = append(c.violations, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
		return "", 0, nil, badRequest("%v", err)
	}
	operation = route.Operation.OperationID
	c.calls = append(c.calls, operation)
	if refused := c.faults.refuse(operation); refused != nil {
		return operation, 0, nil, refused
	}
	if c.faults.held != nil && operation == c.faults.held.operation {
		c.faults.held.keep(r)
	}
	if refused := authorize(r, operation); refused != nil {
		return operation, 0, nil, refused
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	}
	requested, err := validate(r, input)
	if err != nil {
		c.violations = append(c.violations, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
		return operation, 0, nil, badRequest("%v", err)
	}
	answer, refused := handlers[operation](c, requested)
	if refused != nil {
		return operation, 0, nil, refused
	}
	status = http.StatusOK
	if operation == "allocateIP" {
		status = http.StatusCreated
	}
	if body, err = json.Marshal(answer); err == nil {
		err = validateAnswer(input, status, body)
	}
	if err != nil {
		c.violations = append(c.violations, fmt.Sprintf("answer of %s: %v", operation, err))
	}
	return operation, status, body, nil
}

// validate checks a request against the description. Fields that are null are left out: the SDK sends them, and the API takes
// them as missing.
func validate(r *http.Request, input *openapi3filter.RequestValidationInput) (request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return request{}, err
	}
	if body, err = withoutNulls(body); err != nil {
		return request{}, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
		return request{}, err
	}
	requested := request{body: body}
	for _, value := range input.PathParams {
		requested.id = value
	}
	return requested, nil
}

// validateAnswer checks an answer against the description.
func validateAnswer(input *openapi3filter.RequestValidationInput, status int, body []byte) error {
	body, err := withoutNulls(body)
	if err != nil {
		return err
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: status, Header: http.Header{"Content-Type": {"application/json"}},
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	answer.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(context.Background(), answer)
}

// withoutNulls leaves out what is null. What is required is missing then.
func withoutNulls(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return body, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var of any
	if err := decoder.Decode(&of); err != nil {
		return nil, err
	}
	drop(of)
	return json.Marshal(of)
}

func drop(of any) {
	switch of := of.(type) {
	case map[string]any:
		for key, part := range of {
			if part == nil {
				delete(of, key)
			}
			drop(part)
		}
	case []any:
		for _, part := range of {
			drop(part)
		}
	}
}

// keys are those of the groups, as the API itself checks them.
var keys = map[string]string{"Metal-Admin": AdminHMAC, "Metal-Edit": EditHMAC, "Metal-View": ViewHMAC}

// forAdministrators and forEditors are the operations that not everybody may call.
var (
	forAdministrators = map[string]bool{"updateMachine": true}
	forEditors        = map[string]bool{"allocateIP": true, "allocateMachine": true, "freeIP": true, "freeMachine": true, "machineReset": true, "updateIP": true}
)

// authorize checks the signature of a request, by the package that the API itself checks it by, or its token, and the group.
func authorize(r *http.Request, operation string) *refusal {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	group := kind
	switch key := keys[kind]; {
	case kind == "Bearer" && secret == Token:
		group = "Metal-Edit"
	case key != "":
		auth := security.NewHMACAuth(kind, []byte(key))
		if _, err := auth.User(r); err != nil {
			return &refusal{http.StatusForbidden, err.Error()}
		}
	default:
		return &refusal{http.StatusForbidden, "unknown auth"}
	}
	if forAdministrators[operation] && group != "Metal-Admin" || forEditors[operation] && group == "Metal-View" {
		return &refusal{http.StatusForbidden, "you are not member in one of [k8s_kaas-admin maas-all-all-admin]"}
	}
	return nil
}

// decode decodes a body that conforms to the description.
func decode[T any](r request) (body T) {
	// It was checked before.
	_ = json.Unmarshal(r.body, &body)
	return body
}
