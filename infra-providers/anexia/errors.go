// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"drover.io/infra-providers/driver"
)

var (
	// errNotJSON is an answer of something else than the Engine.
	errNotJSON = errors.New("the answer is not the Engine's: it is no JSON of the expected form")
	// errProvisioning ends a call while the virtual machine is being made.
	errProvisioning = &driver.UnfinishedError{Err: errors.New("the virtual machine is being provisioned")}
	// errUnknown ends a call while a request without an answer may still make a virtual machine.
	errUnknown = &driver.UnfinishedError{Err: errors.New("a request for the virtual machine had no answer; it is looked for by its name for up to an hour")}
	// errSettling ends a call while a failed provisioning may have left a virtual machine that is not listed yet.
	errSettling = &driver.UnfinishedError{Err: errors.New("the provisioning failed; what it left is looked for by its name for a quarter of an hour")}
	// errUnreadable ends a call while a new virtual machine cannot be read yet.
	errUnreadable = &driver.UnfinishedError{Err: errors.New("the virtual machine is provisioned and cannot be read yet")}
	// errNoTask is an answer to a request that names no task, so that its outcome is not known.
	errNoTask = errors.New("the answer to the request names no task")
	// errSamePage means that a list does not end.
	errSamePage = errors.New("the list of virtual machines has the same page twice")
)

// endless is why a provisioning that takes too long is not awaited any more. It is of no kind, so that the machine may be released.
func endless(task string) error {
	return fmt.Errorf("the provisioning takes more than an hour, and no virtual machine has the name: task %q of the Engine does not end", task)
}

// apiError is an answer of the Engine that is an error.
type apiError struct {
	status int
	// documented is true for an answer in the Engine's own form. Others come from a program before it.
	documented bool
	message    string
	// fields are the reasons by the name of the parameter.
	fields map[string]string
	pause  time.Duration
}

func newAPIError(response *http.Response, body []byte) *apiError {
	answer := struct {
		Error struct {
			Code       int             `json:"code"`
			Message    string          `json:"message"`
			Validation json.RawMessage `json:"validation"`
		} `json:"error"`
	}{}
	failed := &apiError{status: response.StatusCode}
	failed.pause, _ = driver.ParseRetryAfter(response.Header, time.Now())
	if json.Unmarshal(body, &answer) == nil && answer.Error.Code == response.StatusCode {
		failed.documented, failed.message = true, answer.Error.Message
		_ = json.Unmarshal(answer.Error.Validation, &failed.fields) // it is a list where nothing is wrong
	}
	return failed
}

// Error implements error.
func (e *apiError) Error() string {
	parts := []string{fmt.Sprintf("the Engine answered %d %s", e.status, http.StatusText(e.status))}
	if !e.documented {
		parts[0] = fmt.Sprintf("the answer has the status %d and is not the Engine's", e.status)
	}
	if e.message != "" {
		parts = append(parts, e.message)
	}
	for _, name := range slices.Sorted(maps.Keys(e.fields)) {
		parts = append(parts, name+": "+e.fields[name])
	}
	return strings.Join(parts, "; ")
}

// isFailure reports whether the Engine itself failed to answer a request.
func isFailure(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	return ok && failed.documented && failed.status >= http.StatusInternalServerError
}

// isNotFound reports whether the Engine itself answered that something does not exist.
func isNotFound(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	return ok && failed.documented && failed.status == http.StatusNotFound
}

// isConflict reports whether the Engine itself answered that the state of something forbids the request now.
func isConflict(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	return ok && failed.documented && failed.status == http.StatusConflict
}

// isRefused reports whether the Engine itself refused a request, so that nothing comes of it.
func isRefused(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	return ok && failed.documented && failed.status >= http.StatusBadRequest && failed.status < http.StatusInternalServerError &&
		failed.status != http.StatusRequestTimeout
}

// fields are the fields of the spec by the parameters of the Engine.
var fields = map[string]string{
	"hostname": "metadata.name", "memory_mb": "spec.memoryMB", "cpus": "spec.cpus", "sockets": "spec.sockets",
	"cpu_performance_type": "spec.cpuPerformanceType", "availability_zone": "spec.availabilityZoneID",
	"disk_gb": "spec.disks[0].sizeGB", "disk_type": "spec.disks[0].performanceType", "additional_disks": "spec.disks",
	"network": "spec.networks", "dns1": "spec.dnsServers", "dns2": "spec.dnsServers", "dns3": "spec.dnsServers", "dns4": "spec.dnsServers",
	"ssh": "spec.sshPublicKey", "script": bootstrapField, "location_identifier": "spec.locationID", "vlan_identifier": "spec.networks",
	"prefix_identifier": "spec.networks",
}

// toCreateError converts an error of a request that has the configuration in it, where the Engine refuses an invalid one. The
// field is the one that it names, or the given one where what the path names does not exist.
func toCreateError(err error, missing string) error {
	failed, ok := errors.AsType[*apiError](err)
	if !ok || !failed.documented {
		return toError(err)
	}
	switch failed.status {
	case http.StatusNotFound:
		return &driver.InvalidConfigurationError{Field: missing, Err: failed}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		field := "spec"
		for _, name := range slices.Sorted(maps.Keys(failed.fields)) {
			if known := fields[partsOf(name)[0]]; known != "" {
				field = known
				break
			}
		}
		return &driver.InvalidConfigurationError{Field: field, Err: failed}
	default:
		return toError(err)
	}
}

// partsOf returns the parts of the name of a parameter, such as network, 0 and ips of network[0].ips.
func partsOf(name string) []string {
	return strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(name), ".")
}

// isAboutAddresses reports whether the Engine refused nothing of a request but the addresses that are reserved for it.
func isAboutAddresses(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	if !ok || len(failed.fields) == 0 {
		return false
	}
	for name := range failed.fields {
		if parts := partsOf(name); parts[0] != "network" || !slices.Contains(parts, "ips") {
			return false
		}
	}
	return true
}

// toError converts an error of any call. The Engine documents no codes of its own, only the meaning of some of HTTP's.
func toError(err error) error {
	failed, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	switch failed.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		if failed.documented {
			return &driver.UnauthorizedError{Err: failed}
		}
	case http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: failed.pause, Err: failed}
	}
	return err
}
