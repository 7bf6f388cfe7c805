// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"drover.io/infra-providers/google/googlefake/discovery"
)

// accessToken is what the token endpoint answers with.
const accessToken = "ya29.fake"

// refusal is an error answer.
type refusal struct {
	status     int
	reason     string
	message    string
	location   string
	retryAfter string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, reason, format string, args ...any) error {
	return &refusal{status: status, reason: reason, message: fmt.Sprintf(format, args...)}
}

func notFound(what string) error {
	return refuse(http.StatusNotFound, "notFound", "The resource '%s' was not found", what)
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		c.answerToken(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	if r.Header.Get("Authorization") != "Bearer "+accessToken {
		fail(w, refuse(http.StatusUnauthorized, "authError", "Invalid Credentials"))
		return
	}
	call, err := c.document.CheckRequest(r.Method, r.URL.Path, r.URL.Query(), body)
	if err != nil {
		c.addViolation(fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err))
		invalid, _ := errors.AsType[*discovery.Error](err)
		fail(w, &refusal{status: http.StatusBadRequest, reason: "invalid", message: invalid.Error(), location: invalid.Location})
		return
	}
	fault := c.fault(call.Name)
	if fault.Reason != "" {
		fail(w, &refusal{status: fault.Status, reason: fault.Reason, message: fault.Message, retryAfter: fault.RetryAfter})
		return
	}
	answer, err := c.act(call, body, fault)
	if fault.Lost {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(answer) // the client may have closed the connection
}

// fault returns the fault of a call.
func (c *Cloud) fault(method string) Fault {
	c.mu.Lock()
	c.counts[method]++
	for n, fault := range c.nextFaults {
		if fits(fault, method) {
			c.nextFaults = slices.Delete(c.nextFaults, n, n+1)
			c.mu.Unlock()
			return fault
		}
	}
	c.mu.Unlock()
	return c.options.Faults(method)
}

// fits reports whether a fault can be one of a method.
func fits(fault Fault, method string) bool {
	switch {
	case fault.Operation != "" || fault.Reason == "quotaExceeded":
		return method == "instances.insert"
	case fault.Lost:
		return IsChange(method)
	default:
		return true
	}
}

// act carries out a request and checks the answer.
func (c *Cloud) act(call discovery.Call, body []byte, fault Fault) ([]byte, error) {
	c.mu.Lock()
	answer, err := c.dispatch(call, body, fault)
	var content []byte
	if err == nil {
		content, err = json.Marshal(answer)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.document.CheckAnswer(call.Name, content); err != nil {
		c.addViolation(fmt.Errorf("answering %s: %w", call.Name, err))
		return nil, err
	}
	return selectFields(content, call.Parameters["fields"])
}

func (c *Cloud) dispatch(call discovery.Call, body []byte, fault Fault) (any, error) {
	p := call.Parameters
	if p["project"] != Project && call.Name != "images.get" && call.Name != "images.getFromFamily" {
		return nil, notFound("projects/" + p["project"])
	}
	if call.Name == "instances.insert" {
		return c.insert(p, body, fault)
	}
	if act := map[string]func(map[string]string, []byte) (any, error){
		"instances.setLabels": c.labelInstance,
		"disks.setLabels":     c.labelDisk,
	}[call.Name]; act != nil {
		return act(p, body)
	}
	if act := map[string]func(map[string]string) (any, error){
		"instances.get":                 c.getInstance,
		"instances.delete":              c.deleteInstance,
		"instances.aggregatedList":      c.listInstances,
		"instances.reset":               c.reset,
		"instances.setDiskAutoDelete":   c.setAutoDelete,
		"instances.getSerialPortOutput": c.serialPort,
		"disks.get":                     c.getDisk,
		"disks.delete":                  c.deleteDisk,
		"disks.aggregatedList":          c.listDisks,
		"zoneOperations.get":            c.getOperation,
		"zoneOperations.list":           c.listOperations,
	}[call.Name]; act != nil {
		return act(p)
	}
	return c.catalog(call.Name, p)
}

func (c *Cloud) addViolation(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, err.Error())
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	answer, ok := errors.AsType[*refusal](err)
	if !ok {
		answer = &refusal{status: http.StatusInternalServerError, reason: "internalError", message: err.Error()}
	}
	if answer.retryAfter != "" {
		w.Header().Set("Retry-After", answer.retryAfter)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(answer.status)
	item := map[string]any{"message": answer.message, "domain": "global", "reason": answer.reason}
	if answer.location != "" {
		item["location"], item["locationType"] = answer.location, "parameter"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": answer.status, "message": answer.message, "errors": []any{item}}})
}
