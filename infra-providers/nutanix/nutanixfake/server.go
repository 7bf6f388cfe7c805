// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanixfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/common/v1/response"
	vmmconfig "github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/prism/v4/config"
	vmmerrors "github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/error"
	"k8s.io/utils/ptr"
)

// answer is an answer of the API.
type answer struct {
	status int
	etag   string
	body   any
	// total is the number of entities of a list; negative for no list.
	total int
}

// refusal is an answer that refuses a request.
type refusal struct {
	status      int
	code, group string
	text        string
	attribute   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, code, group, format string, values ...any) error {
	return &refusal{status: status, code: code, group: group, text: fmt.Sprintf(format, values...)}
}

var (
	pathPattern    = regexp.MustCompile(`^/api/(vmm|prism|clustermgmt|networking|volumes)/v4\.(\d+)/(.+)$`)
	infoPattern    = regexp.MustCompile(`^/api/(vmm|prism|clustermgmt|networking|volumes)/unversioned/info$`)
	requestPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	idPattern      = regexp.MustCompile(`/(ZXJnb24=:)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	method := methodOf(r)
	c.counts[method]++
	fault := c.faultOf(method)
	result, err := c.serve(r, method, fault)
	var text []byte
	if err == nil {
		text = result.encode() // it refers to the state
	}
	c.mu.Unlock()
	if fault.Lost && IsChange(method) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", c.options.Now().UTC().Format(http.TimeFormat))
	if err != nil {
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		refused, is := errors.AsType[*refusal](err)
		if !is {
			panic(err) // each error is a refusal
		}
		w.WriteHeader(refused.status)
		_, _ = w.Write(refused.body())
		return
	}
	if result.etag != "" {
		w.Header().Set("ETag", result.etag)
	}
	w.WriteHeader(result.status)
	_, _ = w.Write(text)
}

// methodOf names a request: its method, and its path without versions and IDs.
func methodOf(r *http.Request) string {
	if r.Method == http.MethodOptions {
		return "OPTIONS info"
	}
	path := r.URL.Path
	if parts := pathPattern.FindStringSubmatch(path); parts != nil {
		path = parts[3]
	}
	path = idPattern.ReplaceAllString(path, "/{id}")
	path = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "ahv/"), "config/"), "content/")
	return r.Method + " " + path
}

// The methods that faults are about.
const (
	createMethod = "POST vms"
	startMethod  = "POST vms/{id}/$actions/power-on"
	deleteMethod = "DELETE vms/{id}"
	detachMethod = "POST volume-groups/{id}/$actions/detach-vm"
)

// faultOf returns the fault of a request: the next one that was set and is about it, or that of the options.
func (c *Cloud) faultOf(method string) Fault {
	if len(c.next) > 0 {
		fault := c.next[0]
		switch {
		case fault.Lost && !IsChange(method), (fault.Task != "" || fault.creation) && method != createMethod, fault.Start != "" && method != startMethod,
			fault.Removal != "" && method != deleteMethod && method != detachMethod:
		default:
			c.next = c.next[1:]
			return fault
		}
	}
	if method == "OPTIONS info" {
		return Fault{}
	}
	return c.options.Faults(method)
}

func isAuthorized(r *http.Request) bool {
	user, password, basic := r.BasicAuth()
	return basic && user == User && password == Password || r.Header.Get("X-ntnx-api-key") == APIKey
}

// hasPath reports whether the version of the API has the path.
func (c *Cloud) hasPath(parts []string) bool {
	if parts == nil {
		return false
	}
	minor, err := strconv.Atoi(parts[2])
	return err == nil && (fmt.Sprintf("v4.%d", minor) <= c.options.Version || c.options.Version == "none")
}

func (c *Cloud) serve(r *http.Request, method string, fault Fault) (answer, error) {
	if !isAuthorized(r) {
		return answer{}, refuse(http.StatusUnauthorized, "IAM-10001", "UNAUTHORIZED", "the credentials are invalid")
	}
	if fault.Status != 0 {
		return answer{}, refuse(fault.Status, "VMM-10000", fault.Group, "the request has failed")
	}
	c.pass()
	if r.Method == http.MethodOptions {
		return c.info(r)
	}
	parts := pathPattern.FindStringSubmatch(r.URL.Path)
	if !c.hasPath(parts) {
		c.violate("%s %s: there is no such path", r.Method, r.URL.Path)
		return answer{}, refuse(http.StatusNotFound, "", "", "no such path")
	}
	if r.Method == http.MethodGet {
		return c.get(r, parts[1]+"/"+parts[3])
	}
	id := r.Header.Get("NTNX-Request-Id")
	if !requestPattern.MatchString(id) {
		c.violate("%s: the request ID %q", method, id)
		return answer{}, refuse(http.StatusBadRequest, "VMM-30401", "VM_INVALID_REQUEST_ID_HEADER", "NTNX-Request-Id must be a UUID")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answer{}, refuse(http.StatusBadRequest, "", "", "the body cannot be read")
	}
	if known, ok := c.requests[id]; ok && !c.options.ForgetsRequests {
		return accepted(known), nil
	}
	result, err := c.change(r, parts[1]+"/"+parts[3], body, fault)
	if reference, ok := result.body.(*taskReference); ok && err == nil {
		c.requests[id] = reference.id
	}
	return result, err
}

func (c *Cloud) info(r *http.Request) (answer, error) {
	if !infoPattern.MatchString(r.URL.Path) || c.options.Version == "none" {
		return answer{}, refuse(http.StatusNotFound, "", "", "no such path")
	}
	return answer{status: http.StatusOK, body: map[string]string{"data": c.options.Version}, total: -1}, nil
}

// taskReference is the answer to what begins a task.
type taskReference struct{ id string }

func accepted(taskID string) answer {
	return answer{status: http.StatusAccepted, body: &taskReference{taskID}, total: -1}
}

// data is a generated answer, whose data are one entity or a list.
type data interface{ SetData(any) error }

// filled returns an answer with its data.
func filled(into data, value any) data {
	if err := into.SetData(value); err != nil {
		panic(err)
	}
	return into
}

// encode writes an answer. A list without entities has no data.
func (a answer) encode() []byte {
	value := a.body
	if reference, ok := value.(*taskReference); ok {
		generated := vmmconfig.NewTaskReference()
		generated.ExtId = &reference.id
		value = map[string]any{"data": generated}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	if a.total < 0 {
		return text
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	metadata := response.NewApiResponseMetadata()
	metadata.TotalAvailableResults = &a.total
	all["metadata"] = metadata
	if list, ok := all["data"].([]any); ok && len(list) == 0 {
		delete(all, "data")
	}
	text, err = json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return text
}

// body is the generated error response.
func (r *refusal) body() []byte {
	failed := vmmerrors.NewErrorResponse()
	if r.attribute != "" {
		message := vmmerrors.NewSchemaValidationErrorMessage()
		message.Message, message.AttributePath = &r.text, &r.attribute
		schema := vmmerrors.NewSchemaValidationError()
		schema.ValidationErrorMessages = []vmmerrors.SchemaValidationErrorMessage{*message}
		if err := failed.SetError(*schema); err != nil {
			panic(err)
		}
	} else {
		message := vmmerrors.NewAppMessage()
		message.Message = &r.text
		if r.code != "" {
			message.Code, message.ErrorGroup = &r.code, &r.group
		}
		if err := failed.SetError([]vmmerrors.AppMessage{*message}); err != nil {
			panic(err)
		}
	}
	text, err := json.Marshal(map[string]any{"data": failed})
	if err != nil {
		panic(err)
	}
	return text
}

// decode reads a request into a generated type. An attribute that the type does not have is a violation.
func (c *Cloud) decode(method string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		c.violate("%s: the body cannot be decoded: %v", method, err)
		return refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_ARGUMENT", "the body cannot be decoded")
	}
	if unknown := unknownFields(reflect.ValueOf(into), 0); unknown != "" {
		c.violate("%s: %s", method, unknown)
	}
	return nil
}

// unknownFields returns an attribute that a generated type did not know, anywhere in a value.
func unknownFields(v reflect.Value, depth int) string {
	if depth > 30 {
		return ""
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return unknownFields(v.Elem(), depth+1)
	case reflect.Slice:
		for n := range v.Len() {
			if found := unknownFields(v.Index(n), depth+1); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).Name == "UnknownFields_" && v.Field(n).Len() > 0 {
				return fmt.Sprintf("%s has no attribute %v", v.Type(), v.Field(n).MapKeys())
			}
			if found := unknownFields(v.Field(n), depth+1); found != "" {
				return found
			}
		}
	}
	return ""
}

var filterPattern = regexp.MustCompile(`^(\w+) eq '((?:[^']|'')*)'$`)

// page selects what a list shows of entities, by the filter and the page of a request.
func page[T any](r *http.Request, all []T, property func(T, string) (string, bool)) ([]T, int, error) {
	query := r.URL.Query()
	for name := range query {
		if name != "$filter" && name != "$page" && name != "$limit" {
			return nil, 0, refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_ARGUMENT", "there is no parameter %s", name)
		}
	}
	if filter := query.Get("$filter"); filter != "" {
		for _, condition := range strings.Split(filter, " and ") {
			parts := filterPattern.FindStringSubmatch(condition)
			if parts == nil {
				return nil, 0, refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_ARGUMENT", "the filter %q", filter)
			}
			var matching []T
			for _, each := range all {
				value, ok := property(each, parts[1])
				if !ok {
					return nil, 0, refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_ARGUMENT", "the filter has no property %s", parts[1])
				}
				if value == strings.ReplaceAll(parts[2], "''", "'") {
					matching = append(matching, each)
				}
			}
			all = matching
		}
	}
	number, err := strconv.Atoi(query.Get("$page"))
	limit, err2 := strconv.Atoi(query.Get("$limit"))
	if err != nil || err2 != nil || number < 0 || limit < 1 || limit > 100 {
		return nil, 0, refuse(http.StatusBadRequest, "VMM-30102", "VM_INVALID_ARGUMENT", "the page or its limit")
	}
	from := min(number*limit, len(all))
	return all[from:min(from+limit, len(all))], len(all), nil
}

// named returns a function for entities that can be filtered by their name.
func named[T any](name func(T) *string) func(T, string) (string, bool) {
	return func(of T, property string) (string, bool) { return ptr.Deref(name(of), ""), property == "name" }
}
