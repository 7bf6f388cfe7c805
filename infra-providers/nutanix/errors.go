// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/prism"
)

// errNotListedYet means that Prism Central may have a virtual machine that it does not list yet.
var errNotListedYet = &driver.UnfinishedError{Err: errors.New("the virtual machine was requested and Prism Central does not list it yet")}

// errCreationUnknown means that an earlier process may have requested a virtual machine that is not listed yet.
var errCreationUnknown = &driver.UnfinishedError{
	Err: errors.New("Prism Central does not list the virtual machine; it may not yet list what was requested before this provider started, which takes up to ten minutes"), //nolint:staticcheck // it is a name
}

// What a creation waits for.
var (
	errCreating = errors.New("Prism Central is creating the virtual machine") //nolint:staticcheck // it is a name
	errStarting = errors.New("Prism Central is starting the virtual machine") //nolint:staticcheck // it is a name
	errGivingUp = errors.New("the virtual machine could not be started and is being deleted")
	errRemoving = errors.New("the creation of the virtual machine failed, and what it left is being deleted")
)

// errNoID means that an answer cannot be used. It is never taken for the absence of a virtual machine.
var errNoID = errors.New("Prism Central lists a virtual machine of Drover without an ID") //nolint:staticcheck // it is a name

// The groups of errors that Prism Central names.
const (
	etagMismatch = "VM_ETAG_MISMATCH"
	retryable    = "RETRYABLE_ERROR"
	rateLimited  = "RATE_LIMIT"
)

// toError converts an error of any call.
func toError(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*prism.AnswerError](err)
	if !ok {
		return driver.TransportError(err, "calling Prism Central")
	}
	switch {
	case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
		return &driver.UnauthorizedError{Err: stable(answer)}
	case answer.Status == http.StatusTooManyRequests, strings.HasPrefix(answer.Group, rateLimited):
		pause, _ := driver.ParseRetryAfter(answer.Header, time.Now())
		return &driver.RateLimitedError{RetryAfter: pause, Err: stable(answer)}
	case answer.Status == http.StatusPreconditionFailed, answer.Group == etagMismatch:
		return &driver.UnfinishedError{Err: errors.New("the virtual machine was changed a moment ago, and is read again")}
	default:
		return stable(answer)
	}
}

// uuids are in texts of Prism Central: of the virtual machine that was not created, of hosts and of tasks. Each attempt has others,
// and a condition would change with each.
var uuids = regexp.MustCompile(`[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`)

func withoutUUIDs(text string) string { return uuids.ReplaceAllString(text, "…") }

// stable returns the text of an answer, which is the same for each attempt.
func stable(answer *prism.AnswerError) error { return errors.New(withoutUUIDs(answer.Error())) }

// toCreateError converts an error of a creation. What is invalid is an invalid spec.
func toCreateError(err error) error {
	answer, ok := errors.AsType[*prism.AnswerError](err)
	if ok && (answer.Status == http.StatusBadRequest || answer.Status == http.StatusUnprocessableEntity) && answer.Group != retryable && !strings.HasPrefix(answer.Group, rateLimited) {
		return &driver.InvalidConfigurationError{Field: toField(answer.Attribute), Err: stable(answer)}
	}
	return toError(err)
}

// fields are the fields of the spec for the attributes of a virtual machine.
var fields = map[string]string{
	"name":                    "metadata.name",
	"description":             "metadata.name",
	"numSockets":              "spec.vcpuSockets",
	"numCoresPerSocket":       "spec.vcpusPerSocket",
	"memorySizeBytes":         "spec.memoryMiB",
	"isCpuPassthroughEnabled": "spec.cpuPassthrough",
	"cluster":                 "spec.cluster",
	"categories":              "spec.categories",
	"project":                 "spec.projectID",
	"hardwareClockTimezone":   "spec.hardwareClockTimezone",
	"guestCustomization":      "bootstrap data",
	"bootConfig":              "spec.bootType",
	"machineType":             "spec.bootType",
	"vtpmConfig":              "spec.vtpm",
	"disks":                   "spec.dataDisks",
	"nics":                    "spec.networkInterfaces",
	"gpus":                    "spec.gpus",
}

// toField returns the field of the spec for the path of an attribute, such as $.nics[0].networkInfo.
func toField(attribute string) string {
	name := strings.TrimLeft(attribute, "$./")
	if end := strings.IndexAny(name, ".[/"); end >= 0 {
		name = name[:end]
	}
	if field, ok := fields[name]; ok {
		return field
	}
	return "spec"
}

// isRefusal reports whether Prism Central answered that it has not carried out a request.
func isRefusal(err error) bool {
	answer, ok := errors.AsType[*prism.AnswerError](err)
	return ok && answer.Status >= http.StatusBadRequest && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusRequestTimeout
}

// isConflict reports whether Prism Central answered that what was to be created exists.
func isConflict(err error) bool {
	answer, ok := errors.AsType[*prism.AnswerError](err)
	return ok && answer.Status == http.StatusConflict
}

// toTaskError returns why a task has failed. Its codes are not published, so it counts as one that may pass.
func toTaskError(task *tasks.Task, action string) error {
	return fmt.Errorf("%s: %s", action, taskReason(task))
}

func taskReason(task *tasks.Task) string {
	for _, message := range task.ErrorMessages {
		return fmt.Sprintf("%s: %s", ptr.Deref(message.Code, "no code"), withoutUUIDs(ptr.Deref(message.Message, "Prism Central gave no reason")))
	}
	return withoutUUIDs(ptr.Deref(task.LegacyErrorMessage, "Prism Central gave no reason"))
}

// isRetryable reports whether a task failed for a reason that passes by itself, or was cancelled.
func isRetryable(task *tasks.Task) bool {
	if ptr.Deref(task.Status, tasks.TASKSTATUS_UNKNOWN) == tasks.TASKSTATUS_CANCELED {
		return true
	}
	for _, message := range task.ErrorMessages {
		switch ptr.Deref(message.ErrorGroup, "") {
		case retryable, etagMismatch:
			return true
		}
	}
	return false
}
