// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
)

// answer is the error answer of a service, without what differs from call to call.
type answer struct {
	status int
	// errorType is Neutron's type of the error; other services have none.
	errorType string
	message   string
	// own is true for an answer of Nova, Cinder or Neutron. Proxies answer 400 and 404 too.
	own bool
	// retryAfter is that of the answer; hasRetryAfter is false without one.
	retryAfter    time.Duration
	hasRetryAfter bool
	// overLimit is Cinder's report of a reached limit, which is a quota or a rate.
	overLimit bool
}

func (a *answer) Error() string {
	if a.message == "" {
		return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	}
	return fmt.Sprintf("%d %s: %s", a.status, http.StatusText(a.status), a.message)
}

// isRefusal reports whether the service itself, and no proxy, refuses a request for its content.
func (a *answer) isRefusal() bool {
	return a.own && (a.status == http.StatusBadRequest || a.status == http.StatusNotFound)
}

// isTooLarge reports whether an answer is about the size of the request. Cinder has the same status for a reached limit.
func (a *answer) isTooLarge() bool {
	return a.status == http.StatusRequestEntityTooLarge && !a.overLimit && !a.hasRetryAfter
}

// toError converts an error of the SDK by its status and by the types of Neutron and Cinder, never by its text. Flavor and
// zone are those of an InsufficientCapacityError.
func toError(err error, flavor, zone string) error {
	answered := readAnswer(err)
	switch {
	case err == nil:
		return nil
	case accountMismatch(err) != nil:
		return accountMismatch(err)
	case driver.IsUnfinished(err):
		return err
	case answered == nil:
		return driver.StableNetworkError(err, "calling OpenStack")
	case answered.status == http.StatusUnauthorized, answered.status == http.StatusForbidden:
		return wrap(err, &driver.UnauthorizedError{Err: answered})
	case answered.errorType == "OverQuota", answered.overLimit && answered.hasRetryAfter && answered.retryAfter == 0:
		return wrap(err, &driver.QuotaExceededError{Err: answered})
	case answered.errorType == "IpAddressGenerationFailure":
		return wrap(err, &driver.InsufficientCapacityError{InstanceType: flavor, Zone: zone, OfRequest: true, Err: answered})
	case answered.status == http.StatusTooManyRequests, answered.status == http.StatusRequestEntityTooLarge && !answered.isTooLarge():
		return wrap(err, &driver.RateLimitedError{RetryAfter: answered.retryAfter, Err: answered})
	default:
		return wrap(err, answered)
	}
}

// accountMismatch returns the error of a new login that led to another project; nil for any other.
func accountMismatch(err error) error {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok && driver.IsAccountMismatch(again.ErrReauth) {
		return again.ErrReauth
	}
	return nil
}

// toCreateError converts an error of a call that creates, where a bad request is an invalid spec by the
// answer of the service itself.
func toCreateError(field string, err error, config InstanceConfig) error {
	answered := readAnswer(err)
	creation, creating := errors.AsType[*attachments.CreationError](err)
	if creating && answered != nil && (answered.isRefusal() || answered.isTooLarge()) {
		return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf("creating %s: %w", creation.What, answered)}
	}
	return toError(err, config.Spec.Flavor, config.Zone)
}

// errCreationUnknown means that the request may have created a server, or may still do so.
var errCreationUnknown = errors.New("the answer was lost")

// isUnanswered reports whether a call may still take effect: there was no answer, or only that of a proxy.
func isUnanswered(err error) bool {
	if err == nil {
		return false
	}
	answered := readAnswer(err)
	return answered == nil || answered.status == http.StatusBadGateway || answered.status == http.StatusServiceUnavailable || answered.status == http.StatusGatewayTimeout
}

// readAnswer returns the answer of a service; nil without one.
func readAnswer(err error) *answer {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		err = again.ErrReauth
	}
	if again, ok := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); ok {
		err = again.ErrOriginal
	}
	unexpected, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok {
		return nil
	}
	answered := &answer{status: unexpected.Actual}
	answered.retryAfter, answered.hasRetryAfter = driver.ParseRetryAfter(unexpected.ResponseHeader, time.Now())
	var body map[string]json.RawMessage
	if json.Unmarshal(unexpected.Body, &body) != nil {
		return answered
	}
	for name, content := range body {
		var inner struct {
			Message string `json:"message"`
			Type    string `json:"type"`
		}
		if json.Unmarshal(content, &inner) == nil && inner.Message != "" {
			answered.message, answered.errorType = strings.TrimSpace(inner.Message), inner.Type
			answered.overLimit = name == "overLimit"
			answered.own = name == "badRequest" || name == "itemNotFound" || name == "NeutronError"
		}
	}
	return answered
}

// wrap replaces an error of the SDK in a chain and keeps the text before it.
func wrap(outer, inner error) error {
	for cause := outer; cause != nil; cause = errors.Unwrap(cause) {
		if isSDKError(cause) {
			return fmt.Errorf("%s%w", strings.TrimSuffix(outer.Error(), cause.Error()), inner)
		}
	}
	return inner
}

// isSDKError reports whether one error of a chain, apart from what it wraps, is the SDK's.
func isSDKError(cause error) bool {
	switch cause.(type) { //nolint:errorlint // the chain is walked by the caller
	case gophercloud.ErrUnexpectedResponseCode, *gophercloud.ErrUnableToReauthenticate, *gophercloud.ErrErrorAfterReauthentication:
		return true
	}
	return false
}
