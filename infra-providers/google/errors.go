// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"drover.io/infra-providers/driver"
)

// errNotListedYet means that Compute Engine may have an instance that it does not list yet.
var errNotListedYet = errors.New("the instance was requested a moment ago and Compute Engine does not list it yet")

// errCreationUnknown means that an earlier process may have requested an instance that is not listed yet.
var errCreationUnknown = errors.New("Compute Engine does not list the instance; it may not yet list what was requested before this provider started, which takes up to two minutes") //nolint:staticcheck // it is a name

// errCreating means that the insertion has not ended.
var errCreating = errors.New("Compute Engine is creating the instance") //nolint:staticcheck // it is a name

// toError converts an error of any call.
func toError(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := toAnswer(err)
	if !ok {
		return toTransportError(err)
	}
	reason := fmt.Errorf("Compute Engine: %s: %s", answerCode(answer), cmp.Or(answer.Message, http.StatusText(answer.Code))) //nolint:staticcheck // it is a name
	switch code := answerCode(answer); code {
	case "rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded", "RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED", "concurrentLimitExceeded":
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer.Header), Err: reason}
	case "quotaExceeded", "QUOTA_EXCEEDED", "limitExceeded", "LIMIT_EXCEEDED":
		return &driver.QuotaExceededError{Err: reason}
	case "authError", "required", "expired", "forbidden", "insufficientPermissions", "accessNotConfigured", "SERVICE_DISABLED", "PERMISSION_DENIED", "PERMISSIONS_ERROR",
		"accountDisabled", "accountDeleted", "billingNotEnabled", "UREQ_PROJECT_BILLING_NOT_OPEN", "UREQ_PROJECT_BILLING_NOT_FOUND":
		if code == "required" && answer.Code != http.StatusUnauthorized {
			return reason // a parameter is required
		}
		return &driver.UnauthorizedError{Err: reason}
	}
	switch answer.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &driver.UnauthorizedError{Err: reason}
	case http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer.Header), Err: reason}
	default:
		return reason
	}
}

// toAnswer returns the error of the API in an error; ok is false for an answer of another program, such as a proxy.
func toAnswer(err error) (answer *googleapi.Error, ok bool) {
	answer, ok = errors.AsType[*googleapi.Error](err)
	return answer, ok && (answer.Message != "" || len(answer.Errors) > 0)
}

func toTransportError(err error) error {
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		return fmt.Errorf("Compute Engine did not answer, but a program before it: %d %s", answer.Code, http.StatusText(answer.Code)) //nolint:staticcheck // it is a name
	}
	return driver.TransportError(err, "calling Compute Engine")
}

// toCreateError converts an error of an insertion and of the look-ups before it, where what does not exist or is invalid is
// an invalid spec.
func toCreateError(err error, config InstanceConfig, field string) error {
	answer, ok := toAnswer(err)
	if !ok {
		return toError(err)
	}
	code := answerCode(answer)
	reason := fmt.Errorf("%s: %s", code, cmp.Or(answer.Message, http.StatusText(answer.Code)))
	if short := toShortage(code, config, reason); short != nil {
		return short
	}
	switch {
	case code == "rateLimitExceeded" || code == "userRateLimitExceeded" || isAlreadyExists(err):
		return toError(err)
	case answer.Code == http.StatusNotFound, answer.Code == http.StatusBadRequest && isInvalidCode(code):
		return &driver.InvalidConfigurationError{Field: toField(answerLocation(answer), field), Err: reason}
	default:
		return toError(err)
	}
}

// toOperationError converts the error with which an insertion ended. The first one is the cause.
func toOperationError(operation *compute.Operation, config InstanceConfig) error {
	if operation.Error == nil || len(operation.Error.Errors) == 0 {
		return fmt.Errorf("Compute Engine did not create the instance: %d %s", operation.HttpErrorStatusCode, operation.HttpErrorMessage) //nolint:staticcheck // it is a name
	}
	first := operation.Error.Errors[0]
	reason := fmt.Errorf("%s: %s", first.Code, first.Message)
	if short := toShortage(first.Code, config, reason); short != nil {
		return short
	}
	switch {
	case first.Code == "RATE_LIMIT_EXCEEDED" || first.Code == "RESOURCE_OPERATION_RATE_EXCEEDED":
		return &driver.RateLimitedError{Err: reason}
	case first.Code == "PERMISSIONS_ERROR" || first.Code == "PERMISSION_DENIED":
		return &driver.UnauthorizedError{Err: reason}
	case isInvalidCode(first.Code):
		return &driver.InvalidConfigurationError{Field: toField(first.Location, "spec"), Err: reason}
	default:
		return fmt.Errorf("Compute Engine did not create the instance: %w", reason) //nolint:staticcheck // it is a name
	}
}

// toShortage returns the kind of a code for a lack of capacity or quota, and nil for any other code.
func toShortage(code string, config InstanceConfig, reason error) error {
	machineType, zone := toOffering(config)
	switch code {
	case "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "RESOURCE_POOL_EXHAUSTED", "resourcePoolExhausted", "STOCKOUT":
		return &driver.InsufficientCapacityError{InstanceType: machineType, Zone: zone, OfRequest: placed(config), Err: reason}
	case "IP_SPACE_EXHAUSTED", "IP_SPACE_EXHAUSTED_WITH_DETAILS", "RESERVATION_CAPACITY_EXCEEDED", "RESERVATION_NOT_READY", "INSUFFICIENT_RESERVATION_CAPACITY":
		return &driver.InsufficientCapacityError{InstanceType: machineType, Zone: zone, OfRequest: true, Err: reason}
	case "QUOTA_EXCEEDED", "quotaExceeded", "LIMIT_EXCEEDED", "limitExceeded":
		return &driver.QuotaExceededError{Err: reason}
	default:
		return nil
	}
}

// placed reports whether a configuration requests a part of the zone only, which may be full by itself.
func placed(config InstanceConfig) bool {
	return config.Spec.ReservationAffinity.Reservation != "" || len(config.Spec.ResourcePolicies) > 0
}

// isInvalidCode reports whether only another spec avoids an error.
func isInvalidCode(code string) bool {
	switch code {
	case "invalid", "invalidParameter", "badRequest", "required", "invalidUsage", "unsupportedOperation", "invalidDiskSize", "invalidResourceUsage", "notFound", "operationNotSupported",
		"INVALID_USAGE", "INVALID_FIELD_VALUE", "INVALID_ARGUMENT", "INVALID_PARAMETER", "INVALID_PARAMETER_COMBINATION", "BAD_REQUEST", "REQUIRED",
		"RESOURCE_NOT_FOUND", "NOT_FOUND", "UNSUPPORTED_OPERATION", "OPERATION_NOT_SUPPORTED", "INVALID_RESOURCE_TYPE", "INVALID_DISK_SIZE", "MACHINE_TYPE_NOT_SUPPORTED":
		return true
	default:
		return false
	}
}

// fields are the fields of the spec for those of the API.
var fields = map[string]string{
	"machineType":                "spec.machineType",
	"disks":                      "spec.disks",
	"networkInterfaces":          "spec.networkInterfaces",
	"serviceAccounts":            "spec.serviceAccount",
	"labels":                     "spec.labels",
	"metadata":                   "spec.metadata",
	"tags":                       "spec.tags",
	"guestAccelerators":          "spec.guestAccelerators",
	"minCpuPlatform":             "spec.minCPUPlatform",
	"reservationAffinity":        "spec.reservationAffinity",
	"resourcePolicies":           "spec.resourcePolicies",
	"shieldedInstanceConfig":     "spec.shieldedInstance",
	"confidentialInstanceConfig": "spec.confidentialInstanceType",
	"advancedMachineFeatures":    "spec.advancedMachineFeatures",
	"scheduling":                 "spec.provisioningModel",
	"name":                       "metadata.name",
	"zone":                       "spec.zone",
}

// toField returns the field of the spec for the location of an error, such as resource.disks[0].initializeParams, and
// otherwise the one that is known.
func toField(location, known string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(location, "resource."), ".")
	name, _, _ = strings.Cut(name, "[")
	return cmp.Or(fields[name], known)
}

// isAlreadyExists reports whether a name is in use.
func isAlreadyExists(err error) bool {
	answer, ok := toAnswer(err)
	return ok && answer.Code == http.StatusConflict
}

// isNotFound reports whether the API answered that something does not exist.
func isNotFound(err error) bool {
	answer, ok := toAnswer(err)
	return ok && answer.Code == http.StatusNotFound
}

// answerCode returns the reason of an error of the API, or its status.
func answerCode(answer *googleapi.Error) string {
	if len(answer.Errors) > 0 && answer.Errors[0].Reason != "" {
		return answer.Errors[0].Reason
	}
	return strconv.Itoa(answer.Code)
}

// answerLocation returns the field that an error of the API names, which the SDK leaves out.
func answerLocation(answer *googleapi.Error) string {
	body := struct {
		Error struct {
			Errors []struct{ Location string }
		}
	}{}
	if json.Unmarshal([]byte(answer.Body), &body) != nil || len(body.Error.Errors) == 0 {
		return ""
	}
	return body.Error.Errors[0].Location
}

// retryAfter returns the pause that an answer requests; zero without one.
func retryAfter(header http.Header) time.Duration {
	pause, _ := driver.ParseRetryAfter(header, time.Now())
	return pause
}
