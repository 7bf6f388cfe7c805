// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"drover.io/infra-providers/driver"
)

// answerError is an error answer.
type answerError struct {
	status  int
	message string
	// own is true for an answer of the metal-api itself. Proxies answer too.
	own        bool
	retryAfter time.Duration
}

// uuids differ from call to call: the machine that the API chose.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (e *answerError) Error() string {
	text := fmt.Sprintf("the metal-api: %d %s", e.status, http.StatusText(e.status))
	if e.message == "" {
		return text
	}
	return text + ": " + uuids.ReplaceAllString(e.message, "…")
}

// causeOf returns the answer in an error, without what wraps it.
func causeOf(err error) error {
	if answer, ok := errors.AsType[*answerError](err); ok {
		return answer
	}
	return err
}

// toError converts an error of any call.
func toError(err error) error {
	answer, ok := errors.AsType[*answerError](err)
	switch {
	case err == nil, isKnown(err):
		return err
	case !ok:
		return driver.TransportError(err, "calling the metal-api")
	case answer.status == http.StatusUnauthorized, answer.status == http.StatusForbidden:
		return &driver.UnauthorizedError{Err: answer}
	case answer.status == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: answer.retryAfter, Err: answer}
	default:
		return fmt.Errorf("%s%w", prefixOf(err), answer)
	}
}

// prefixOf returns what the driver put before an error of the transport, which has the method and the URL of the request.
func prefixOf(err error) string {
	inner, ok := errors.AsType[*url.Error](err)
	if !ok {
		return ""
	}
	whole, part := err.Error(), inner.Error()
	return whole[:max(0, len(whole)-len(part))]
}

// isKnown reports whether an error has a kind already.
func isKnown(err error) bool {
	for _, is := range []func(error) bool{
		driver.IsInvalidConfiguration, driver.IsUnauthorized, driver.IsNotOwned, driver.IsNotFound, driver.IsQuotaExceeded, driver.IsInsufficientCapacity,
		driver.IsUnfinished, driver.IsNotRunning,
	} {
		if is(err) {
			return true
		}
	}
	return false
}

// isNotFound reports whether the API itself answered that something does not exist.
func isNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// isRefused reports whether the API itself refused a request for its content, or for what it found.
func isRefused(err error) bool {
	return hasStatus(err, http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity)
}

func hasStatus(err error, statuses ...int) bool {
	answer, ok := errors.AsType[*answerError](err)
	if !ok || !answer.own {
		return false
	}
	for _, status := range statuses {
		if answer.status == status {
			return true
		}
	}
	return false
}

// isUnanswered reports whether a request that failed may have been carried out, or may still be. The API answers 409 after it has
// undone an allocation.
func isUnanswered(err error) bool {
	answer, ok := errors.AsType[*answerError](err)
	if !ok {
		return err != nil && !isUnsent(err)
	}
	switch answer.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return !answer.own
	default:
		return true
	}
}

// isUnsent reports whether a request has not left the process: there was no connection for it, or no token.
func isUnsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial" || driver.IsUnauthorized(err)
}
