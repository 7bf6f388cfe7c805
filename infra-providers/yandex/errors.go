// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/quota"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"drover.io/infra-providers/driver"
)

// errNotListedYet means that Compute Cloud may have an instance that it does not list yet.
var errNotListedYet = errors.New("the instance or one of its disks was requested a moment ago and Compute Cloud does not list it yet")

// errCreationUnknown means that an earlier process may have requested an instance that is not listed yet.
var errCreationUnknown = errors.New("Compute Cloud does not list the instance; it may not yet list what was requested before this provider started, which takes up to two minutes") //nolint:staticcheck // it is a name

// errCreating means that the creation has not ended.
var errCreating = errors.New("Compute Cloud is creating the instance or its disks") //nolint:staticcheck // it is a name

// errUnavailable is without the text, which has addresses and ports.
var errUnavailable = errors.New("Compute Cloud is unavailable") //nolint:staticcheck // it is a name

// toError converts an error of any call.
func toError(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := toStatus(err)
	if !ok {
		return driver.TransportError(err, "calling Compute Cloud")
	}
	reason := fmt.Errorf("Compute Cloud: %s: %s", answer.Code(), answer.Message()) //nolint:staticcheck // it is a name
	switch answer.Code() {
	case codes.Canceled:
		return fmt.Errorf("calling Compute Cloud: %w", context.Canceled)
	case codes.DeadlineExceeded:
		return fmt.Errorf("calling Compute Cloud: %w", context.DeadlineExceeded)
	case codes.Unavailable:
		return errUnavailable
	case codes.Unauthenticated, codes.PermissionDenied:
		return &driver.UnauthorizedError{Err: reason}
	case codes.ResourceExhausted:
		if exhausted(answer) == ofQuota {
			return &driver.QuotaExceededError{Err: reason}
		}
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer), Err: reason}
	default:
		return reason
	}
}

// answerError is an error with an answer of the API.
type answerError interface {
	error
	GRPCStatus() *status.Status
}

// toStatus returns the answer of the API in an error.
func toStatus(err error) (*status.Status, bool) {
	answer, ok := errors.AsType[answerError](err)
	if !ok {
		return nil, false
	}
	return answer.GRPCStatus(), true
}

// toCreateError converts an error of a creation and of the look-ups before it, where what does not exist or is invalid is an
// invalid spec.
func toCreateError(err error, field string) error {
	answer, ok := toStatus(err)
	if ok && isInvalid(answer.Code()) {
		return &driver.InvalidConfigurationError{Field: toField(answer, field), Err: fmt.Errorf("%s: %s", answer.Code(), answer.Message())}
	}
	return toError(err)
}

// toOperationError converts the error with which a creation ended. Compute Cloud has no code for a lack of capacity: a resource
// is exhausted that is no quota.
func toOperationError(failed *rpcstatus.Status, config InstanceConfig, field string) error {
	answer := status.FromProto(failed)
	reason := fmt.Errorf("%s: %s", answer.Code(), answer.Message())
	switch code := answer.Code(); {
	case code == codes.ResourceExhausted && exhausted(answer) == ofUnknown:
		instanceType, zone := toOffering(config)
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: field != instanceField || placed(config), Err: reason}
	case code == codes.ResourceExhausted, code == codes.Unauthenticated, code == codes.PermissionDenied:
		return toError(answer.Err())
	case isInvalid(code):
		return &driver.InvalidConfigurationError{Field: toField(answer, field), Err: reason}
	default:
		return fmt.Errorf("Compute Cloud did not create what was requested: %w", reason) //nolint:staticcheck // it is a name
	}
}

// isInvalid reports whether only another spec avoids the error of a creation.
func isInvalid(code codes.Code) bool {
	return code == codes.InvalidArgument || code == codes.NotFound || code == codes.OutOfRange
}

// placed reports whether a configuration requests a part of the zone only, which may be full by itself.
func placed(config InstanceConfig) bool {
	spec := config.Spec
	return spec.PlacementGroupID != "" || len(spec.HostAffinityRules) > 0 || spec.GPUClusterID != "" || spec.ReservedInstancePoolID != ""
}

// shortage is what an exhausted resource is.
type shortage int

const (
	ofUnknown shortage = iota
	ofQuota
	ofRate
)

// exhausted returns what resource is exhausted. The quotas of requests in a time have names that end with .rate.
func exhausted(answer *status.Status) shortage {
	found := ofUnknown
	for _, detail := range answer.Details() {
		switch failure := detail.(type) {
		case *quota.QuotaFailure:
			found = max(found, ofQuota)
			for _, violation := range failure.Violations {
				if strings.HasSuffix(violation.GetMetric().GetName(), ".rate") {
					found = ofRate
				}
			}
		case *errdetails.RetryInfo:
			found = ofRate
		}
	}
	return found
}

// retryAfter returns the pause that an answer requests; zero without one.
func retryAfter(answer *status.Status) time.Duration {
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return min(max(info.GetRetryDelay().AsDuration(), 0), driver.MaxRetryAfter)
		}
	}
	return 0
}

// The fields of a machine that requests are about.
const (
	instanceField = "spec"
	bootDiskField = "spec.bootDisk"
	diskField     = "spec.disks"
)

// fields are the fields of the spec for those of the API.
var fields = map[string]string{
	"folder_id":                 "spec.folderID",
	"zone_id":                   "spec.zone",
	"platform_id":               "spec.platformID",
	"resources_spec":            "spec.cores",
	"filesystem_specs":          "spec.filesystems",
	"local_disk_specs":          "spec.localDisks",
	"network_interface_specs":   "spec.networkInterfaces",
	"service_account_id":        "spec.serviceAccountID",
	"scheduling_policy":         "spec.preemptible",
	"network_settings":          "spec.networkAcceleration",
	"placement_policy":          "spec.placementGroupID",
	"gpu_settings":              "spec.gpuClusterID",
	"maintenance_policy":        "spec.maintenancePolicy",
	"maintenance_grace_period":  "spec.maintenanceGracePeriodSeconds",
	"metadata_options":          "spec.metadataOptions",
	"serial_port_settings":      "spec.serialPortSSHAuthorization",
	"reserved_instance_pool_id": "spec.reservedInstancePoolID",
	"labels":                    "spec.labels",
	"metadata":                  "spec.metadata",
	"name":                      "metadata.name",
	"hostname":                  "metadata.name",
	"image_id":                  "spec.image",
	"family":                    "spec.image.family",
}

// toField returns the field of the spec for the one that an answer names, such as network_interface_specs[0].subnet_id, and
// otherwise the one that is known.
func toField(answer *status.Status, known string) string {
	for _, detail := range answer.Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok || len(bad.FieldViolations) == 0 {
			continue
		}
		name, _, _ := strings.Cut(bad.FieldViolations[0].Field, ".")
		name, _, _ = strings.Cut(name, "[")
		if field := fields[name]; field != "" {
			return field
		}
	}
	return known
}

// isNotFound reports whether the API answered that something does not exist.
func isNotFound(err error) bool { return hasCode(err, codes.NotFound) }

// isAlreadyExists reports whether a name is in use.
func isAlreadyExists(err error) bool { return hasCode(err, codes.AlreadyExists) }

func hasCode(err error, code codes.Code) bool {
	answer, ok := toStatus(err)
	return ok && answer.Code() == code
}

// isRefusal reports whether the API answered that it has not carried out a request.
func isRefusal(err error) bool {
	answer, ok := toStatus(err)
	if !ok {
		return false
	}
	switch answer.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// toTokenError converts an error of the service that issues tokens.
func toTokenError(err error) error {
	answer, ok := toStatus(err)
	if !ok {
		return toError(err)
	}
	switch answer.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.NotFound:
		return &driver.UnauthorizedError{Err: fmt.Errorf("Yandex Cloud refuses the credentials: %s: %s", answer.Code(), answer.Message())} //nolint:staticcheck // it is a name
	case codes.ResourceExhausted:
		return &driver.RateLimitedError{RetryAfter: retryAfter(answer), Err: errors.New("Yandex Cloud limits the requests for tokens")} //nolint:staticcheck // it is a name
	default:
		return toError(err)
	}
}
