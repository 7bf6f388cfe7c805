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

func TestErrorsAreTheirKinds(t *testing.T) {
	t.Parallel()
	invalidField := func(field string) func(error) bool {
		return func(err error) bool {
			refused, ok := errors.AsType[*driver.InvalidConfigurationError](err)
			return ok && refused.Field == field
		}
	}
	passing := func(err error) bool {
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
		hcloud.ErrorCodePrimaryIPAssigned:           {nil, passing},
		hcloud.ErrorCodeNoSubnetAvailable:           {nil, passing},
		hcloud.ErrorCodeLocked:                      {nil, passing},
		hcloud.ErrorCodeConflict:                    {nil, passing},
		hcloud.ErrorCodeMaintenance:                 {nil, passing},
		hcloud.ErrorCodeUniquenessError:             {nil, passing},
		hcloud.ErrorCodeProtected:                   {nil, passing},
		hcloud.ErrorCodeServiceError:                {nil, passing},
		hcloud.ErrorCodeServerError:                 {nil, passing},
		hcloud.ErrorCodeTimeout:                     {nil, passing},
		hcloud.ErrorCodeNotFound:                    {nil, passing},
		"something_new":                             {nil, passing},
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("creating: %w", hcloud.Error{Code: code, Message: "words", Details: test.details})
			if got := toError(err, Config{ServerType: "cx33", Location: "fsn1"}, time.Now()); !test.is(got) {
				t.Errorf("got %T: %v", got, got)
			}
		})
	}
	if err := toError(nil, Config{}, time.Now()); err != nil {
		t.Errorf("got %v from nothing", err)
	}
	kind := &driver.NotOwnedError{}
	if err := toError(kind, Config{}, time.Now()); !driver.IsNotOwned(err) {
		t.Errorf("got %v, want what had a kind already", err)
	}
}

func TestCapacityNamesThePlace(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{"fsn1": "fsn1", "": "any location"} {
		err := toError(hcloud.Error{Code: hcloud.ErrorCodeResourceUnavailable}, Config{ServerType: "cx33", Location: location}, time.Now())
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
		"takes seconds":                             {"17", time.Time{}, 17 * time.Second},
		"takes a date":                              {now.Add(8 * time.Second).UTC().Format(http.TimeFormat), time.Time{}, 8 * time.Second},
		"prefers what was said over the reset":      {"17", now.Add(time.Hour), 17 * time.Second},
		"waits for a reset that is near":            {"", now.Add(5 * time.Second), 5 * time.Second},
		"does not wait an hour for the full budget": {"", now.Add(time.Hour), maxPause},
		"does not wait for what has passed":         {"", now.Add(-time.Hour), 0},
		"leaves it to the caller without a hint":    {"", time.Time{}, 0},
		"does not believe what it cannot read":      {"soon", time.Time{}, 0},
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

// TestNetworkErrorsAreStable: what ends up in conditions must not differ from one failure to the next.
func TestNetworkErrorsAreStable(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	text := func(port int) string {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return toError(fmt.Errorf("reading: %w", &net.OpError{Op: "read", Net: "tcp", Source: local, Err: reset}), Config{}, time.Now()).Error()
	}
	if text(1) != text(2) {
		t.Errorf("%q differs from %q by port %s", text(1), text(2), strconv.Itoa(2))
	}
	ended := &net.OpError{Op: "dial", Err: context.Canceled}
	if err := toError(ended, Config{}, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
