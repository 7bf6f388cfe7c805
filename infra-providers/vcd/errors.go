// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"errors"
	"net/http"
	"regexp"
	"slices"

	"drover.io/infra-providers/driver"
)

// Minor error codes that decide what the driver does next.
const (
	codeBusy      = "BUSY_ENTITY"
	codeDuplicate = "DUPLICATE_NAME"
	codeForbidden = "ACCESS_TO_RESOURCE_IS_FORBIDDEN"
)

var (
	// errIncomplete means that an answer lacks what each has. It is never taken for an empty list.
	errIncomplete = errors.New("the answer of Cloud Director is incomplete")
	// errUnanswered means that Director may still add a virtual machine that it does not show yet.
	errUnanswered = errors.New("the virtual machine was requested a moment ago, without an answer, and the vApp does not have it yet")
	// errCreationUnknown means that Director may still add one that an earlier process requested.
	errCreationUnknown = errors.New("the vApp does not have the virtual machine; it may be one that was requested before this provider started, which takes up to two minutes")
	// errComposing means that the vApp is being recomposed, for this machine or for another one.
	errComposing = errors.New("the vApp is being recomposed, and the virtual machine may appear with that")
	// errIncompleteVM means that a virtual machine is no instance yet.
	errIncompleteVM = errors.New("the virtual machine is being created, or its creation failed")
	// errBusy means that Director carries out something else.
	errBusy = errors.New("an operation on the vApp or the virtual machine is in progress")
	// errIneffective means that a task was successful and is due again.
	errIneffective = errors.New("Cloud Director reports that the task was successful, and the virtual machine is as before")
	// errChanged means that a list may lack something, because its pages do not fit together.
	errChanged = errors.New("the list of Cloud Director changed while it was read")
	// errTooMany means that a list or a text in an answer is longer than any that Director has.
	errTooMany = errors.New("the answer of Cloud Director is too long")
)

// toError converts an error of a request or of a task. Director has no documented code for a lack of capacity or quota, so that
// is an error that passes.
func toError(err error) error {
	failed, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		return err
	case failed.status == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: failed.retryAfter, Err: failed}
	case failed.code == codeBusy:
		return &driver.UnfinishedError{Err: errBusy}
	case failed.status == http.StatusUnauthorized, failed.status == http.StatusForbidden, failed.code == codeForbidden:
		return &driver.UnauthorizedError{Err: failed}
	default:
		return err
	}
}

// toLoginError converts an error of a login, where a refused API token is a bad request.
func toLoginError(err error) error {
	refused := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}
	if failed, ok := errors.AsType[*apiError](err); ok && failed.code != "" && slices.Contains(refused, failed.status) {
		return &driver.UnauthorizedError{Err: failed}
	}
	if statusOf(err) == http.StatusUnauthorized { // with no body
		return &driver.UnauthorizedError{Err: errors.New("the credentials are refused")}
	}
	return toError(err)
}

// isAbsent reports whether a read may have failed because there is no such object: Director answers for one that does not exist
// as for one that may not be read.
func isAbsent(err error) bool {
	return statusOf(err) == http.StatusForbidden || statusOf(err) == http.StatusNotFound
}

// isTaken reports whether a virtual machine may have been refused because its name is taken, for which several codes are known.
func isTaken(err error) bool {
	failed, ok := errors.AsType[*apiError](err)
	return ok && (failed.code == codeDuplicate || failed.code == "BAD_REQUEST")
}

// isUnanswered reports whether a request may have been carried out although it failed.
func isUnanswered(err error) bool {
	status := statusOf(err)
	return !driver.IsUnfinished(err) && (status == 0 || status >= http.StatusInternalServerError)
}

// statusOf returns the status of an answer, zero for an error that is none.
func statusOf(err error) int {
	if failed, ok := errors.AsType[*apiError](err); ok {
		return failed.status
	}
	return 0
}

// varying is what differs in the message from answer to answer: the ID of the request, before which there may be its time, and those
// of tasks.
var varying = regexp.MustCompile(`^\[ [0-9a-f-]{36,} \] |\(com\.vmware\.vcloud\.entity\.[a-zA-Z]+:[0-9a-f-]{36}\)`)

// stable leaves out of a message what differs from answer to answer, because it ends up in a condition.
func stable(message string) string { return varying.ReplaceAllString(message, "") }
