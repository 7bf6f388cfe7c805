// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"drover.io/infra-providers/driver"
)

var (
	// errBusy ends a creation while another caller may be creating the Droplet.
	errBusy = errors.New("the creation of the Droplet was requested before, by a call whose answer was lost or by another provider; waiting up to five minutes for the Droplet to appear")
	// errStarting ends a creation whose Droplet exists and still lacks its reserved IP.
	errStarting = errors.New("the Droplet is starting; its reserved IP follows")
	// errLateVolume and errLateIP end a deletion while a request without an answer may still create something.
	errLateVolume = errors.New("a request for a volume may still be carried out: its answer was lost; waiting up to two minutes for the volume to appear")
	errLateIP     = errors.New("a request for the reserved IP may still be carried out: its answer was lost; waiting up to five minutes for the address to appear")
	// errOfProxy is an answer 404 that is not DigitalOcean's.
	errOfProxy = errors.New("DigitalOcean did not answer, but a program before it: 404 Not Found")
	// errUntagged ends a read of a new Droplet, whose tags the cloud sets after its creation.
	errUntagged = errors.New("the Droplet is being created and has no tags yet")
)

// ownAnswers is a transport that fails for an answer 404 that is not the API's. A proxy answers so, too, while what is behind it
// is moved, and that is no statement about a resource. The API's answers have the ID of the error.
type ownAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o ownAnswers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusNotFound {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	answer := struct{ ID string }{}
	if json.Unmarshal(content, &answer) != nil || answer.ID == "" {
		return nil, errOfProxy
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response, nil
}

// statusOf returns the HTTP status of an answer of the API; zero for an error without an answer.
func statusOf(err error) int {
	answer, ok := errors.AsType[*godo.ErrorResponse](err)
	if !ok || answer.Response == nil {
		return 0
	}
	return answer.Response.StatusCode
}

func isNotFound(err error) bool { return statusOf(err) == http.StatusNotFound }

// isUnanswered reports whether the cloud may have carried out a request that failed, or still may: it did not refuse it.
func isUnanswered(err error) bool {
	status := statusOf(err)
	return err != nil && (status < http.StatusBadRequest || status >= http.StatusInternalServerError || status == http.StatusRequestTimeout)
}

// isUnprocessable reports whether the cloud refused the content of a request. It has one status for that and no codes: why,
// the state of the account shows.
func isUnprocessable(err error) bool {
	status := statusOf(err)
	return status == http.StatusUnprocessableEntity || status == http.StatusBadRequest
}

// toError converts an error of the SDK by its status. An error that already has a kind is returned as it is.
func toError(err error, now time.Time) error {
	answer, ok := errors.AsType[*godo.ErrorResponse](err)
	if !ok || answer.Response == nil {
		return driver.StableNetworkError(err, "calling DigitalOcean")
	}
	reason := describe(err, answer)
	switch answer.Response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &driver.UnauthorizedError{Err: reason}
	case http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer.Response.Header, now), Err: reason}
	case http.StatusRequestEntityTooLarge:
		return &driver.InvalidConfigurationError{Field: bootstrapField, Err: reason}
	default:
		// What was not found existed a moment ago; what conflicts may pass.
		return reason
	}
}

// describe returns the request and the cloud's message, without the ID of the request.
func describe(err error, answer *godo.ErrorResponse) error {
	request := "the request"
	if answer.Response.Request != nil {
		request = answer.Response.Request.Method + " " + answer.Response.Request.URL.Path
	}
	// An error that was wrapped keeps its first words.
	return fmt.Errorf("%s%s: %d %s", prefixOf(err, answer), request, answer.Response.StatusCode, answer.Message)
}

// prefixOf returns what wraps an answer.
func prefixOf(err error, answer *godo.ErrorResponse) string {
	whole, inner := err.Error(), answer.Error()
	if at := len(whole) - len(inner); at > 0 && whole[at:] == inner {
		return whole[:at]
	}
	return ""
}

// retryAfter returns the delay after too many requests: the cloud's own hint, which it gives for the limit of a minute, or
// the time when the oldest request of the hour expires. driver.RetryAfter bounds it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	if pause, ok := driver.ParseRetryAfter(header, now); ok {
		return pause
	}
	reset, err := strconv.ParseInt(header.Get("RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	return max(time.Unix(reset, 0).Sub(now), 0)
}

// withDroplet is the error of a creation whose Droplet exists. What lacks capacity or quota then passes, because the caller
// would otherwise request another Droplet.
func withDroplet(err error) error {
	if driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err) {
		return fmt.Errorf("finishing the Droplet: %v", err) //nolint:errorlint // it must not have that kind
	}
	return err
}
