// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
)

// maxPause bounds the pause that follows from RateLimit-Reset. That header tells when the whole budget of
// an hour is back, while one more request is allowed every second.
const maxPause = 30 * time.Second

// errUnfinished ends a creation whose server exists and still lacks a network, backups or power.
var errUnfinished = errors.New("the server is being made; what cannot be ordered with it follows")

// errInFlight ends a search while nobody can say that there is no server.
var errInFlight = errors.New("a request for the server may still be carried out, as its answer was lost or an earlier process may have made it; waiting up to two minutes for the server to appear")

// answered reports whether the cloud refused a request, so that it has not carried it out and will not.
func answered(err error) bool {
	switch kind := toError(err, Config{}, time.Time{}); {
	case driver.IsInvalidConfiguration(kind), driver.IsUnauthorized(kind), driver.IsRateLimited(kind), driver.IsNotOwned(kind):
		return true
	case driver.IsInsufficientCapacity(kind), driver.IsQuotaExceeded(kind):
		return true
	}
	answer, ok := errors.AsType[hcloud.Error](err)
	if !ok || answer.Response() == nil || answer.Response().Response == nil {
		return false
	}
	status := answer.Response().StatusCode
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusRequestTimeout
}

// toError turns what the SDK says into one of the driver's kinds, by code. Errors that have a kind already
// pass.
func toError(err error, config Config, now time.Time) error {
	answer, ok := errors.AsType[hcloud.Error](err)
	if !ok {
		return stable(err)
	}
	words := errors.New(describe(answer))
	switch answer.Code {
	case hcloud.ErrorCodeUnauthorized, hcloud.ErrorCodeForbidden, "token_readonly":
		return &driver.UnauthorizedError{Err: words}
	case hcloud.ErrorCodeRateLimitExceeded:
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer.Response(), now), Err: words}
	case hcloud.ErrorCodeResourceLimitExceeded:
		return &driver.QuotaExceededError{Err: words}
	case hcloud.ErrorCodeResourceUnavailable, hcloud.ErrorCodePlacementError, hcloud.ErrorCodeNoSpaceLeftInLocation:
		ofGroup := answer.Code == hcloud.ErrorCodePlacementError
		return &driver.InsufficientCapacityError{InstanceType: config.ServerType, Zone: cmp.Or(config.Location, "any location"), OfRequest: ofGroup, Err: words}
	case hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeJSONError, hcloud.ErrorCodeInvalidServerType, hcloud.ErrorUnsupportedError:
		return &driver.InvalidConfigurationError{Field: field(answer), Err: words}
	case hcloud.ErrorCodeNetworksOverlap, hcloud.ErrorCodeIncompatibleNetworkType, hcloud.ErrorCodeIPNotAvailable:
		return &driver.InvalidConfigurationError{Field: "spec.networks", Err: words}
	case hcloud.ErrorCodePrimaryIPDatacenterMismatch, hcloud.ErrorCodePrimaryIPVersionMismatch:
		return &driver.InvalidConfigurationError{Field: "spec.publicIPv4", Err: words}
	case hcloud.ErrorCodePrivateNetOnlyServer:
		return &driver.InvalidConfigurationError{Field: "spec.firewalls", Err: words}
	default:
		// locked, conflict, maintenance, service_error and the like pass by themselves; what was not
		// found was there a moment ago.
		return words
	}
}

// withServer is the error of a creation whose server exists. What lacks room or quota then passes, because the caller would
// otherwise request another server.
func withServer(err error) error {
	if driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err) {
		return fmt.Errorf("finishing the server: %v", err) //nolint:errorlint // it must not have that kind
	}
	return err
}

// fields are the fields of a request and those of the spec that they come from.
var fields = map[string]string{
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

// field is the field of the spec that the cloud complains about, as far as it says.
func field(answer hcloud.Error) string {
	details, _ := answer.Details.(hcloud.ErrorDetailsInvalidInput)
	for _, at := range details.Fields {
		if known, ok := fields[at.Name]; ok {
			return known
		}
	}
	return "spec"
}

// describe is the cloud's own words without the id of the request.
func describe(answer hcloud.Error) string {
	text := fmt.Sprintf("%s (%s)", answer.Message, answer.Code)
	if details, ok := answer.Details.(hcloud.ErrorDetailsInvalidInput); ok {
		for _, at := range details.Fields {
			text += fmt.Sprintf("; %s: %q", at.Name, at.Messages)
		}
	}
	return text
}

// retryAfter is when to come back after too many requests.
func retryAfter(response *hcloud.Response, now time.Time) time.Duration {
	if response == nil || response.Response == nil {
		return 0
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(response.Header.Get("Retry-After")); err == nil {
		return max(at.Sub(now), 0)
	}
	if response.Meta.Ratelimit.Reset.IsZero() {
		return 0
	}
	return min(max(response.Meta.Ratelimit.Reset.Sub(now), 0), maxPause)
}

// stable leaves out of network errors what differs from one to the next: the local port.
func stable(err error) error {
	broken, ok := errors.AsType[*net.OpError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return fmt.Errorf("speaking to the cloud: %s: %w", broken.Op, broken.Err)
	}
}
