// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

func answer(status int, reason string) error {
	return fmt.Errorf("calling: %w", &googleapi.Error{Code: status, Message: "a message", Errors: []googleapi.ErrorItem{{Reason: reason, Message: "a message"}}, Header: http.Header{"Retry-After": {"7"}}})
}

func TestToError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"invalid credentials":         {answer(401, "authError"), driver.IsUnauthorized},
		"a missing permission":        {answer(403, "forbidden"), driver.IsUnauthorized},
		"an API that is switched off": {answer(403, "accessNotConfigured"), driver.IsUnauthorized},
		"missing scopes":              {answer(403, "insufficientPermissions"), driver.IsUnauthorized},
		"too many requests":           {answer(403, "rateLimitExceeded"), driver.IsRateLimited},
		"too many requests of a user": {answer(403, "userRateLimitExceeded"), driver.IsRateLimited},
		"too many requests by status": {answer(429, ""), driver.IsRateLimited},
		"a quota":                     {answer(403, "quotaExceeded"), driver.IsQuotaExceeded},
		"a failure":                   {answer(503, "backendError"), drivertest.HasNoKind},
		"a project that is gone":      {answer(404, "notFound"), drivertest.HasNoKind},
		"a changed fingerprint":       {answer(412, "conditionNotMet"), drivertest.HasNoKind},
		"a busy instance":             {answer(400, "resourceNotReady"), drivertest.HasNoKind},
		"a proxy's refusal":           {&googleapi.Error{Code: 403, Body: "<html>denied</html>"}, drivertest.HasNoKind},
		"a proxy's absence":           {&googleapi.Error{Code: 404, Body: "<html>not found</html>"}, drivertest.HasNoKind},
		"an end of the context":       {context.DeadlineExceeded, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && drivertest.HasNoKind(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
	if got := driver.RetryAfter(toError(answer(403, "rateLimitExceeded"))); got != 7*time.Second {
		t.Errorf("got a pause of %s, want 7s", got)
	}
	if isNotFound(&googleapi.Error{Code: 404, Body: "<html>not found</html>"}) {
		t.Error("a proxy's answer counts as absence")
	}
}

func TestToCreateError(t *testing.T) {
	t.Parallel()
	config := InstanceConfig{Spec: infrav1.GoogleMachineSpec{MachineType: "n4-standard-2"}, Zone: "europe-west3-a"}
	operation := func(code, location string) error {
		return toOperationError(&compute.Operation{Error: &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: "a message", Location: location}}}}, config)
	}
	for name, test := range map[string]struct {
		err  error
		is   func(error) bool
		want string
	}{
		"no capacity":                {operation("ZONE_RESOURCE_POOL_EXHAUSTED", ""), driver.IsInsufficientCapacity, ""},
		"no capacity, with details":  {operation("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", ""), driver.IsInsufficientCapacity, ""},
		"no capacity at once":        {toCreateError(answer(503, "ZONE_RESOURCE_POOL_EXHAUSTED"), config, "spec"), driver.IsInsufficientCapacity, ""},
		"no addresses":               {operation("IP_SPACE_EXHAUSTED", ""), driver.IsInsufficientCapacity, ""},
		"a quota":                    {operation("QUOTA_EXCEEDED", ""), driver.IsQuotaExceeded, ""},
		"a quota at once":            {toCreateError(answer(403, "quotaExceeded"), config, "spec"), driver.IsQuotaExceeded, ""},
		"too many operations":        {operation("RESOURCE_OPERATION_RATE_EXCEEDED", ""), driver.IsRateLimited, ""},
		"a missing permission":       {operation("PERMISSIONS_ERROR", ""), driver.IsUnauthorized, ""},
		"an invalid field":           {operation("INVALID_FIELD_VALUE", "resource.machineType"), driver.IsInvalidConfiguration, "spec.machineType"},
		"an invalid field in a list": {operation("INVALID_USAGE", "resource.networkInterfaces[0].subnetwork"), driver.IsInvalidConfiguration, "spec.networkInterfaces"},
		"something without location": {operation("RESOURCE_NOT_FOUND", ""), driver.IsInvalidConfiguration, "spec"},
		"an internal error":          {operation("INTERNAL_ERROR", ""), drivertest.HasNoKind, ""},
		"an unknown code":            {operation("SOMETHING_NEW", ""), drivertest.HasNoKind, ""},
		"no code":                    {toOperationError(&compute.Operation{HttpErrorStatusCode: 503, HttpErrorMessage: "SERVICE UNAVAILABLE"}, config), drivertest.HasNoKind, ""},
		"an unknown image":           {toCreateError(answer(404, "notFound"), config, "spec.image"), driver.IsInvalidConfiguration, "spec.image"},
		"a location in the answer": {toCreateError(&googleapi.Error{Code: 400, Message: "m", Errors: []googleapi.ErrorItem{{Reason: "invalid"}},
			Body: `{"error":{"errors":[{"reason":"invalid","location":"resource.tags"}]}}`}, config, "spec"), driver.IsInvalidConfiguration, "spec.tags"},
		"a proxy's absence":   {toCreateError(&googleapi.Error{Code: 404, Body: "<html></html>"}, config, "spec.image"), drivertest.HasNoKind, ""},
		"a busy resource":     {toCreateError(answer(400, "resourceNotReady"), config, "spec"), drivertest.HasNoKind, ""},
		"too many requests":   {toCreateError(answer(403, "rateLimitExceeded"), config, "spec"), driver.IsRateLimited, ""},
		"invalid credentials": {toCreateError(answer(401, "required"), config, "spec"), driver.IsUnauthorized, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !test.is(test.err) {
				t.Fatalf("got %T %v", test.err, test.err)
			}
			if invalid, ok := errors.AsType[*driver.InvalidConfigurationError](test.err); ok && invalid.Field != test.want {
				t.Errorf("got the field %q, want %q", invalid.Field, test.want)
			}
		})
	}
}

// TestShortageOfARequest: a placement policy or a reservation may be full while the zone is not.
func TestShortageOfARequest(t *testing.T) {
	t.Parallel()
	plain := InstanceConfig{Spec: infrav1.GoogleMachineSpec{MachineType: "n4-standard-2"}, Zone: "europe-west3-a"}
	placed := plain
	placed.Spec.ResourcePolicies = []string{"compact"}
	reserved := plain
	reserved.Spec.ReservationAffinity = infrav1.GoogleReservationAffinity{ConsumeReservationType: "SPECIFIC_RESERVATION", Reservation: "r"}
	for name, test := range map[string]struct {
		config InstanceConfig
		code   string
		want   bool
	}{
		"the zone":       {plain, "ZONE_RESOURCE_POOL_EXHAUSTED", false},
		"a policy":       {placed, "ZONE_RESOURCE_POOL_EXHAUSTED", true},
		"a reservation":  {reserved, "ZONE_RESOURCE_POOL_EXHAUSTED", true},
		"its own subnet": {plain, "IP_SPACE_EXHAUSTED", true},
	} {
		got, _ := errors.AsType[*driver.InsufficientCapacityError](toShortage(test.code, test.config, errors.New("full")))
		if got == nil || got.OfRequest != test.want {
			t.Errorf("%s: got %+v, want of the request: %t", name, got, test.want)
		}
	}
}
