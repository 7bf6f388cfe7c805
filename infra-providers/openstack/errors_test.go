// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
)

func answerError(status int, retryAfter, body string) error {
	header := http.Header{}
	if retryAfter != "" {
		header.Set("Retry-After", retryAfter)
	}
	return gophercloud.ErrUnexpectedResponseCode{URL: "http://10.0.0.1/x?request=1", Method: "POST", Actual: status, Body: []byte(body), ResponseHeader: header}
}

func transient(err error) bool {
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

func TestToError(t *testing.T) {
	t.Parallel()
	again := &gophercloud.ErrUnableToReauthenticate{ErrOriginal: answerError(401, "", ""), ErrReauth: answerError(401, "", "")}
	away := &gophercloud.ErrUnableToReauthenticate{ErrOriginal: answerError(401, "", ""), ErrReauth: answerError(503, "", "")}
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"401 is Unauthorized":                                 {answerError(401, "", ""), driver.IsUnauthorized},
		"a refused login is Unauthorized":                     {again, driver.IsUnauthorized},
		"a login service that is away is transient":           {away, transient},
		"403 without permission is Unauthorized":              {answerError(403, "", `{"forbidden": {"message": "Policy doesn't allow it"}}`), driver.IsUnauthorized},
		"Neutron's OverQuota is QuotaExceeded":                {answerError(409, "", `{"NeutronError": {"type": "OverQuota", "message": "m"}}`), driver.IsQuotaExceeded},
		"a network without addresses is InsufficientCapacity": {answerError(409, "", `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "m"}}`), driver.IsInsufficientCapacity},
		"another conflict of Neutron is transient":            {answerError(409, "", `{"NeutronError": {"type": "IpAddressInUse", "message": "m"}}`), transient},
		"Cinder's limit without a hint is QuotaExceeded":      {answerError(413, "0", `{"overLimit": {"message": "VolumeLimitExceeded", "code": 413}}`), driver.IsQuotaExceeded},
		"Cinder's limit with a hint is RateLimited":           {answerError(413, "7", `{"overLimit": {"message": "This request was rate-limited.", "code": 413}}`), driver.IsRateLimited},
		"413 with a hint is RateLimited":                      {answerError(413, "7", ""), driver.IsRateLimited},
		"413 alone is about the size of the request":          {answerError(413, "", "<html>"), transient},
		"429 is RateLimited":                                  {answerError(429, "7", ""), driver.IsRateLimited},
		"400 of a read is transient":                          {answerError(400, "", `{"badRequest": {"message": "marker not found"}}`), transient},
		"404 of a read is transient":                          {answerError(404, "", "<html>"), transient},
		"500 is transient":                                    {answerError(500, "", ""), transient},
		"a network that is away is transient":                 {&url.Error{Op: "Get", URL: "x", Err: errors.New("no route")}, transient},
		"keeps the end of a context":                          {fmt.Errorf("listing: %w", context.Canceled), func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{test.err, fmt.Errorf("doing it: %w", test.err)} {
				if got := toError(err, "f", "z"); !test.is(got) {
					t.Errorf("got %T %v", got, got)
				}
			}
		})
	}
	if toError(nil, "", "") != nil {
		t.Error("no error became one")
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	if got := driver.RetryAfter(toError(answerError(429, "7", ""), "", "")); got != 7*time.Second {
		t.Errorf("got %s, want 7s", got)
	}
	full, ok := errors.AsType[*driver.InsufficientCapacityError](toError(answerError(409, "", `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "m"}}`), "f", "z"))
	if !ok || full.InstanceType != "f" || full.Zone != "z" {
		t.Errorf("got %+v", full)
	}
}

func TestOnlyCreationErrorsAreInvalidConfiguration(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: true, 404: true, 409: false, 500: false} {
		for body, own := range map[string]bool{
			`{"NeutronError": {"type": "BadRequest", "message": "m"}}`: true, `{"badRequest": {"message": "m", "code": 400}}`: true,
			`{"itemNotFound": {"message": "m", "code": 404}}`: true,
			"": false, "<html><h1>404 Not Found</h1></html>": false, `{"message": "no Route matched with those values"}`: false,
		} {
			created := toCreateError("spec.ports", &attachments.CreationError{What: "port", Err: answerError(status, "", body)}, InstanceConfig{})
			listed := toCreateError("spec.ports", fmt.Errorf("listing: %w", answerError(status, "", body)), InstanceConfig{})
			if driver.IsInvalidConfiguration(created) != (want && own) || driver.IsInvalidConfiguration(listed) {
				t.Errorf("%d %s: creating gives %v, listing gives %v", status, body, created, listed)
			}
		}
	}
}

// TestCreationThatIsTooLargeIsInvalid: Nova accepts requests of 112 KiB. User data and metadata that a spec may have are
// more, and a retry is as long. Every call that the cloud limits pauses others.
func TestCreationThatIsTooLargeIsInvalid(t *testing.T) {
	t.Parallel()
	err := toCreateError("spec", &attachments.CreationError{What: "server", Err: answerError(413, "", `{"message": "Request is too large.", "code": "413 Request Entity Too Large"}`)}, InstanceConfig{})
	if !driver.IsInvalidConfiguration(err) || driver.IsRateLimited(err) {
		t.Errorf("got %T %v, want an InvalidConfigurationError", err, err)
	}
	err = toCreateError("spec", &attachments.CreationError{What: "server", Err: answerError(413, "7", "")}, InstanceConfig{})
	if !driver.IsRateLimited(err) {
		t.Errorf("with a hint when to try again: got %T %v, want a RateLimitedError", err, err)
	}
}

// TestStableError: what differs between two calls must not reach a condition.
func TestStableError(t *testing.T) {
	t.Parallel()
	dial := func(port int) error {
		return &url.Error{Op: "Get", URL: "http://10.0.0.1", Err: &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET}}
	}
	if a, b := toError(dial(1), "", "").Error(), toError(dial(2), "", "").Error(); a != b {
		t.Errorf("%q became %q", a, b)
	}
	got := toError(fmt.Errorf("listing servers: %w", answerError(500, "", `{"computeFault": {"message": "oops", "code": 500}}`)), "", "")
	if want := "listing servers: 500 Internal Server Error: oops"; got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIsQuotaReached(t *testing.T) {
	t.Parallel()
	flavor := flavors.Flavor{VCPUs: 4, RAM: 1024}
	none := limits.Absolute{MaxTotalInstances: -1, MaxTotalCores: -1, MaxTotalRAMSize: -1, MaxServerGroups: -1}
	for name, test := range map[string]struct {
		change func(*limits.Absolute)
		full   bool
	}{
		"has room without limits":    {func(*limits.Absolute) {}, false},
		"has room for the last":      {func(a *limits.Absolute) { a.MaxTotalInstances, a.TotalInstancesUsed = 3, 2 }, false},
		"is full of instances":       {func(a *limits.Absolute) { a.MaxTotalInstances, a.TotalInstancesUsed = 3, 3 }, true},
		"is short of cores":          {func(a *limits.Absolute) { a.MaxTotalCores, a.TotalCoresUsed = 8, 5 }, true},
		"is short of memory":         {func(a *limits.Absolute) { a.MaxTotalRAMSize, a.TotalRAMUsed = 2048, 1025 }, true},
		"has all groups it may have": {func(a *limits.Absolute) { a.MaxServerGroups, a.TotalServerGroupsUsed = 1, 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has := none
			test.change(&has)
			if got := isQuotaReached(has, flavor); got != test.full {
				t.Errorf("got %t", got)
			}
		})
	}
}
