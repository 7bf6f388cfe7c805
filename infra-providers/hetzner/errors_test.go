// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
)

func TestToError(t *testing.T) {
	t.Parallel()
	invalidField := func(field string) func(error) bool {
		return func(err error) bool {
			refused, ok := errors.AsType[*driver.InvalidConfigurationError](err)
			return ok && refused.Field == field
		}
	}
	transient := func(err error) bool {
		for _, is := range []func(error) bool{
			driver.IsNotFound, driver.IsNotOwned, driver.IsInvalidConfiguration, driver.IsUnauthorized,
			driver.IsQuotaExceeded, driver.IsInsufficientCapacity, driver.IsRateLimited,
		} {
			if is(err) {
				return false
			}
		}
		return err != nil
	}
	about := func(names ...string) (details hcloud.ErrorDetailsInvalidInput) {
		for _, name := range names {
			details.Fields = append(details.Fields, hcloud.ErrorDetailsInvalidInputField{Name: name, Messages: []string{"no"}})
		}
		return details
	}
	for code, test := range map[hcloud.ErrorCode]struct {
		details any
		is      func(error) bool
	}{
		hcloud.ErrorCodeUnauthorized:                {nil, driver.IsUnauthorized},
		hcloud.ErrorCodeForbidden:                   {nil, driver.IsUnauthorized},
		"token_readonly":                            {nil, driver.IsUnauthorized},
		hcloud.ErrorCodeRateLimitExceeded:           {nil, driver.IsRateLimited},
		hcloud.ErrorCodeResourceLimitExceeded:       {nil, driver.IsQuotaExceeded},
		hcloud.ErrorCodeResourceUnavailable:         {nil, driver.IsInsufficientCapacity},
		hcloud.ErrorCodePlacementError:              {nil, driver.IsInsufficientCapacity},
		hcloud.ErrorCodeNoSpaceLeftInLocation:       {nil, driver.IsInsufficientCapacity},
		hcloud.ErrorCodeInvalidInput:                {about("unheard_of", "server_type"), invalidField("spec.serverType")},
		hcloud.ErrorCodeJSONError:                   {nil, invalidField("spec")},
		hcloud.ErrorCodeInvalidServerType:           {nil, invalidField("spec")},
		hcloud.ErrorUnsupportedError:                {nil, invalidField("spec")},
		hcloud.ErrorCodeNetworksOverlap:             {nil, invalidField("spec.networks")},
		hcloud.ErrorCodeIPNotAvailable:              {nil, invalidField("spec.networks")},
		hcloud.ErrorCodeIncompatibleNetworkType:     {nil, invalidField("spec.networks")},
		hcloud.ErrorCodePrimaryIPDatacenterMismatch: {nil, invalidField("spec.publicIPv4")},
		hcloud.ErrorCodePrimaryIPVersionMismatch:    {nil, invalidField("spec.publicIPv4")},
		hcloud.ErrorCodePrivateNetOnlyServer:        {nil, invalidField("spec.firewalls")},
		hcloud.ErrorCodePrimaryIPAssigned:           {nil, transient},
		hcloud.ErrorCodeNoSubnetAvailable:           {nil, transient},
		hcloud.ErrorCodeLocked:                      {nil, transient},
		hcloud.ErrorCodeConflict:                    {nil, transient},
		hcloud.ErrorCodeMaintenance:                 {nil, transient},
		hcloud.ErrorCodeUniquenessError:             {nil, transient},
		hcloud.ErrorCodeProtected:                   {nil, transient},
		hcloud.ErrorCodeServiceError:                {nil, transient},
		hcloud.ErrorCodeServerError:                 {nil, transient},
		hcloud.ErrorCodeTimeout:                     {nil, transient},
		hcloud.ErrorCodeNotFound:                    {nil, transient},
		"something_new":                             {nil, transient},
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("creating: %w", hcloud.Error{Code: code, Message: "words", Details: test.details})
			if got := toError(err, InstanceConfig{ServerType: "cx33", Location: "fsn1"}, time.Now()); !test.is(got) {
				t.Errorf("got %T: %v", got, got)
			}
		})
	}
	if err := toError(nil, InstanceConfig{}, time.Now()); err != nil {
		t.Errorf("got %v from nothing", err)
	}
	kind := &driver.NotOwnedError{}
	if err := toError(kind, InstanceConfig{}, time.Now()); !driver.IsNotOwned(err) {
		t.Errorf("got %v, want what had a kind already", err)
	}
}

func TestCapacityErrorHasTypeAndLocation(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{"fsn1": "fsn1", "": "any location"} {
		err := toError(hcloud.Error{Code: hcloud.ErrorCodeResourceUnavailable}, InstanceConfig{ServerType: "cx33", Location: location}, time.Now())
		short, ok := errors.AsType[*driver.InsufficientCapacityError](err)
		if !ok || short.InstanceType != "cx33" || short.Zone != want {
			t.Errorf("got %v, want cx33 to be short in %s", err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		after string
		reset time.Time
		want  time.Duration
	}{
		"reads seconds":                             {"17", time.Time{}, 17 * time.Second},
		"reads a date":                              {now.Add(8 * time.Second).UTC().Format(http.TimeFormat), time.Time{}, 8 * time.Second},
		"prefers Retry-After to the reset":          {"17", now.Add(time.Hour), 17 * time.Second},
		"waits for a reset that is near":            {"", now.Add(5 * time.Second), 5 * time.Second},
		"does not wait an hour for the full budget": {"", now.Add(time.Hour), maxRetryAfter},
		"does not wait for a reset in the past":     {"", now.Add(-time.Hour), 0},
		"is zero without a header":                  {"", time.Time{}, 0},
		"ignores an invalid header":                 {"soon", time.Time{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := &hcloud.Response{Response: &http.Response{Header: http.Header{}}}
			response.Header.Set("Retry-After", test.after)
			response.Meta.Ratelimit.Reset = test.reset
			if got := retryAfter(response, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if got := retryAfter(nil, now); got != 0 {
		t.Errorf("got %s without an answer", got)
	}
}

// TestStableError: messages in conditions must not differ from failure to failure.
func TestStableError(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	text := func(port int) string {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return toError(fmt.Errorf("reading: %w", &net.OpError{Op: "read", Net: "tcp", Source: local, Err: reset}), InstanceConfig{}, time.Now()).Error()
	}
	if text(1) != text(2) {
		t.Errorf("%q differs from %q by port %s", text(1), text(2), strconv.Itoa(2))
	}
	ended := &net.OpError{Op: "dial", Err: context.Canceled}
	if err := toError(ended, InstanceConfig{}, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
