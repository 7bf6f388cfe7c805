// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
)

// maxRetryAfter bounds the delay that RateLimit-Reset gives. That header has the time when the whole hourly budget is
// replenished, while one more request is permitted every second.
const maxRetryAfter = 30 * time.Second

// errInProgress ends a creation whose server exists and still lacks a network, backups or power.
var errInProgress = errors.New("the server is being created; its networks, backups and start follow")

// errCreationUnknown ends a search while a request may still create the server.
var errCreationUnknown = errors.New("a request for the server may still be carried out: its answer was lost, or this provider started less than two minutes ago; waiting up to two minutes for the server to appear")

// isUnanswered reports whether the cloud may have carried out a request that failed, or still may: it did not refuse it.
func isUnanswered(err error) bool {
	if err == nil {
		return false
	}
	switch kind := toError(err, InstanceConfig{}, time.Time{}); {
	case driver.IsInvalidConfiguration(kind), driver.IsUnauthorized(kind), driver.IsRateLimited(kind), driver.IsNotOwned(kind):
		return false
	case driver.IsInsufficientCapacity(kind), driver.IsQuotaExceeded(kind):
		return false
	}
	answer, ok := errors.AsType[hcloud.Error](err)
	if !ok || answer.Response() == nil || answer.Response().Response == nil {
		return true
	}
	status := answer.Response().StatusCode
	return status < http.StatusBadRequest || status >= http.StatusInternalServerError || status == http.StatusRequestTimeout
}

// toError converts an error of the SDK by its code. An error that already has a kind is returned as it is.
func toError(err error, config InstanceConfig, now time.Time) error {
	answer, ok := errors.AsType[hcloud.Error](err)
	if !ok {
		return driver.StableNetworkError(err, "calling Hetzner Cloud")
	}
	reason := errors.New(describeError(answer))
	switch answer.Code {
	case hcloud.ErrorCodeUnauthorized, hcloud.ErrorCodeForbidden, "token_readonly":
		return &driver.UnauthorizedError{Err: reason}
	case hcloud.ErrorCodeRateLimitExceeded:
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer.Response(), now), Err: reason}
	case hcloud.ErrorCodeResourceLimitExceeded:
		return &driver.QuotaExceededError{Err: reason}
	case hcloud.ErrorCodeResourceUnavailable, hcloud.ErrorCodePlacementError, hcloud.ErrorCodeNoSpaceLeftInLocation:
		ofGroup := answer.Code == hcloud.ErrorCodePlacementError
		return &driver.InsufficientCapacityError{InstanceType: config.ServerType, Zone: cmp.Or(config.Location, "any location"), OfRequest: ofGroup, Err: reason}
	case hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeJSONError, hcloud.ErrorCodeInvalidServerType, hcloud.ErrorUnsupportedError:
		return &driver.InvalidConfigurationError{Field: fieldOf(answer), Err: reason}
	case hcloud.ErrorCodeNetworksOverlap, hcloud.ErrorCodeIncompatibleNetworkType, hcloud.ErrorCodeIPNotAvailable:
		return &driver.InvalidConfigurationError{Field: "spec.networks", Err: reason}
	case hcloud.ErrorCodePrimaryIPDatacenterMismatch, hcloud.ErrorCodePrimaryIPVersionMismatch:
		return &driver.InvalidConfigurationError{Field: "spec.publicIPv4", Err: reason}
	case hcloud.ErrorCodePrivateNetOnlyServer:
		return &driver.InvalidConfigurationError{Field: "spec.firewalls", Err: reason}
	default:
		// locked, conflict, maintenance, service_error and similar codes are transient. What was not found existed a
		// moment ago.
		return reason
	}
}

// withServer is the error of a creation whose server exists. What lacks capacity or quota then passes, because the caller would
// otherwise request another server.
func withServer(err error) error {
	if driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err) {
		return fmt.Errorf("finishing the server: %v", err) //nolint:errorlint // it must not have that kind
	}
	return err
}

// specFields maps the fields of a request to the fields of the spec that they come from.
var specFields = map[string]string{
	"name":            "metadata.name",
	"server_type":     "spec.serverType",
	"image":           "spec.image",
	"location":        "spec.location",
	"ssh_keys":        "spec.sshKeys",
	"networks":        "spec.networks",
	"network":         "spec.networks",
	"ip":              "spec.networks",
	"ip_range":        "spec.networks",
	"alias_ips":       "spec.networks",
	"firewalls":       "spec.firewalls",
	"placement_group": "spec.placementGroup",
	"public_net":      "spec.publicIPv4",
	"volumes":         "spec.volumes",
	"size":            "spec.volumes",
	"format":          "spec.volumes",
	"labels":          "spec.labels",
	"label_selector":  "spec.imageSelector",
	"user_data":       bootstrapField,
}

// fieldOf returns the field of the spec at fault, or the whole spec if the answer names none.
func fieldOf(answer hcloud.Error) string {
	details, _ := answer.Details.(hcloud.ErrorDetailsInvalidInput)
	for _, at := range details.Fields {
		if known, ok := specFields[at.Name]; ok {
			return known
		}
	}
	return "spec"
}

// describeError returns the cloud's message without the ID of the request.
func describeError(answer hcloud.Error) string {
	text := fmt.Sprintf("%s (%s)", answer.Message, answer.Code)
	if details, ok := answer.Details.(hcloud.ErrorDetailsInvalidInput); ok {
		for _, at := range details.Fields {
			text += fmt.Sprintf("; %s: %q", at.Name, at.Messages)
		}
	}
	return text
}

// retryAfter returns the delay after too many requests.
func retryAfter(response *hcloud.Response, now time.Time) time.Duration {
	if response == nil || response.Response == nil {
		return 0
	}
	if pause, ok := driver.ParseRetryAfter(response.Header, now); ok {
		return pause
	}
	if response.Meta.Ratelimit.Reset.IsZero() {
		return 0
	}
	return min(max(response.Meta.Ratelimit.Reset.Sub(now), 0), maxRetryAfter)
}
