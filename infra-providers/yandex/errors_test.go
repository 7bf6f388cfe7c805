// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/quota"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

func answerWith(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	answer, err := status.New(code, "a message").WithDetails(details...)
	if err != nil {
		return status.Error(code, "a message") // an answer that is OK has no details
	}
	return answer.Err()
}

func ofMetric(name string) *quota.QuotaFailure {
	return &quota.QuotaFailure{Violations: []*quota.QuotaFailure_Violation{{Metric: &quota.QuotaMetric{Name: name}}}}
}

func TestToError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"an invalid token":                {answerWith(t, codes.Unauthenticated), driver.IsUnauthorized},
		"a missing role":                  {answerWith(t, codes.PermissionDenied), driver.IsUnauthorized},
		"too many requests":               {answerWith(t, codes.ResourceExhausted), driver.IsRateLimited},
		"a quota of requests":             {answerWith(t, codes.ResourceExhausted, ofMetric("compute.requests.rate")), driver.IsRateLimited},
		"a quota of instances":            {answerWith(t, codes.ResourceExhausted, ofMetric("compute.instances.count")), driver.IsQuotaExceeded},
		"a quota without a name":          {answerWith(t, codes.ResourceExhausted, &quota.QuotaFailure{}), driver.IsQuotaExceeded},
		"a failure":                       {answerWith(t, codes.Internal), drivertest.HasNoKind},
		"an absence":                      {answerWith(t, codes.NotFound), drivertest.HasNoKind},
		"a busy instance":                 {answerWith(t, codes.FailedPrecondition), drivertest.HasNoKind},
		"an answer of another program":    {answerWith(t, codes.Unimplemented), drivertest.HasNoKind},
		"a service that is not there":     {answerWith(t, codes.Unavailable), drivertest.HasNoKind},
		"an end of the context":           {answerWith(t, codes.DeadlineExceeded), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && drivertest.HasNoKind(err) }},
		"a cancellation":                  {answerWith(t, codes.Canceled), func(err error) bool { return errors.Is(err, context.Canceled) && drivertest.HasNoKind(err) }},
		"no token":                        {errNoOwnCredentials, driver.IsUnauthorized},
		"an end of the context of tokens": {context.Canceled, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
	limited := answerWith(t, codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if got := driver.RetryAfter(toError(limited)); got != 7*time.Second {
		t.Errorf("got a pause of %s, want 7s", got)
	}
}

func TestToOperationError(t *testing.T) {
	t.Parallel()
	ofRequest := func(want bool) func(error) bool {
		return func(err error) bool {
			short, ok := errors.AsType[*driver.InsufficientCapacityError](err)
			return ok && short.OfRequest == want
		}
	}
	group := InstanceConfig{Spec: infrav1.YandexMachineSpec{PlacementGroupID: "fd8"}}
	for name, test := range map[string]struct {
		err    error
		config InstanceConfig
		field  string
		is     func(error) bool
	}{
		"no capacity":                      {answerWith(t, codes.ResourceExhausted), InstanceConfig{}, instanceField, ofRequest(false)},
		"no capacity in a placement group": {answerWith(t, codes.ResourceExhausted), group, instanceField, ofRequest(true)},
		"no capacity for a disk":           {answerWith(t, codes.ResourceExhausted), InstanceConfig{}, bootDiskField, ofRequest(true)},
		"a quota":                          {answerWith(t, codes.ResourceExhausted, ofMetric("compute.instances.count")), InstanceConfig{}, instanceField, driver.IsQuotaExceeded},
		"a quota of requests":              {answerWith(t, codes.ResourceExhausted, ofMetric("compute.requests.rate")), InstanceConfig{}, instanceField, driver.IsRateLimited},
		"a missing role":                   {answerWith(t, codes.PermissionDenied), InstanceConfig{}, instanceField, driver.IsUnauthorized},
		"a failure":                        {answerWith(t, codes.Internal), InstanceConfig{}, instanceField, drivertest.HasNoKind},
		"a cancellation":                   {answerWith(t, codes.Canceled), InstanceConfig{}, instanceField, drivertest.HasNoKind},
		"an invalid field":                 {answerWith(t, codes.InvalidArgument), InstanceConfig{}, instanceField, driver.IsInvalidConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toOperationError(status.Convert(test.err).Proto(), test.config, test.field); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
}

func TestToCreateErrorNamesTheField(t *testing.T) {
	t.Parallel()
	violation := func(field string) error {
		return answerWith(t, codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field}}})
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"of a list":      {violation("network_interface_specs[0].subnet_id"), "spec.networkInterfaces"},
		"of a message":   {violation("resources_spec.cores"), "spec.cores"},
		"unknown":        {violation("anything"), "spec"},
		"not named":      {answerWith(t, codes.InvalidArgument), "spec"},
		"what is absent": {answerWith(t, codes.NotFound), "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invalid, ok := errors.AsType[*driver.InvalidConfigurationError](toCreateError(test.err, instanceField))
			if !ok || invalid.Field != test.want {
				t.Errorf("got %v, want the field %s", invalid, test.want)
			}
		})
	}
}
