// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Codes of EC2 that decide what the driver does next.
const (
	codeTokenMismatch   = "IdempotentParameterMismatch"
	codeTokenTerminated = "IdempotentInstanceTerminated"
)

// errNotListedYet means that EC2 may have created an instance that it does not list yet.
var errNotListedYet = errors.New("the instance was requested a moment ago and EC2 does not list it yet")

// errCreationUnknown means that EC2 may have created an instance for an earlier process that it does not list yet.
var errCreationUnknown = errors.New("EC2 does not list the instance; it may not yet list what was requested before this provider started, which takes up to two minutes")

// toCreateError converts an error of RunInstances and of the lookups before it, where an invalid parameter is an invalid spec.
func toCreateError(err error, config InstanceConfig) error {
	reason := stableError(err)
	instanceType, zone := toOffering(config)
	switch code := errorCode(err); code {
	case "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientAddressCapacity", "UnfulfillableCapacity":
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: placed(config) || choosesZone(config), Err: reason}
	case "InsufficientHostCapacity", "InsufficientCapacityOnHost", "InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded",
		"InsufficientVolumeCapacity", "InsufficientFreeAddressesInSubnet", "SpotMaxPriceTooLow", "Unsupported":
		// Unsupported also means that a zone does not have the type; another zone may.
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: true, Err: reason}
	case "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "SpotInstanceCountExceeded", "HostLimitExceeded", "VolumeLimitExceeded",
		"MaxIOPSLimitExceeded", "NetworkInterfaceLimitExceeded", "AddressLimitExceeded", "ResourceLimitExceeded", "InstanceCreditSpecificationLimitExceeded":
		return &driver.QuotaExceededError{Err: reason}
	default:
		if field := fieldOf(code); field != "" {
			return &driver.InvalidConfigurationError{Field: field, Err: reason}
		}
		return toError(err)
	}
}

// placed reports whether a configuration requests a part of the zone only, which may be full by itself.
func placed(config InstanceConfig) bool {
	return config.Spec.Placement != (infrav1.AWSPlacement{}) || config.Spec.CapacityReservation != (infrav1.AWSCapacityReservation{})
}

// toError converts an error of any call.
func toError(err error) error {
	switch errorCode(err) {
	case "":
		if known, ok := errors.AsType[*driver.UnauthorizedError](err); ok {
			return known
		}
		if moved, ok := errors.AsType[*driver.AccountMismatchError](err); ok {
			return moved
		}
		return stableError(err)
	case "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed":
		return &driver.NotFoundError{What: "the EC2 instance"}
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"EC2ThrottledException", "BandwidthLimitExceeded", "TooManyRequestsException", "PriorRequestNotComplete", "SlowDown", "ResourceCountLimitExceeded":
		return &driver.RateLimitedError{Err: stableError(err)}
	case "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "Blocked", "ExpiredToken", "ExpiredTokenException",
		"IncompleteSignature", "InvalidClientTokenId", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired", "PendingVerification",
		"RequestExpired", "SignatureDoesNotMatch", "UnauthorizedException", "UnrecognizedClientException":
		return &driver.UnauthorizedError{Err: stableError(err)}
	default:
		return stableError(err)
	}
}

// fieldOf returns the field at fault for a code that only another spec avoids, and an empty string for any other code.
func fieldOf(code string) string {
	switch code {
	case "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "InvalidAMIName.Malformed", "InvalidAMIAttributeItemValue":
		return "spec.image"
	case "InvalidInstanceType", "UnsupportedInstanceTypeOnHost", "UnsupportedHibernationConfiguration":
		return "spec.instanceType"
	case "InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed", "InvalidSubnetId.Malformed", "InvalidSubnet", "MissingInput", "VPCIdNotSpecified", "DefaultSubnetDoesNotExistInAZ":
		return "spec.subnet"
	case "InvalidGroup.NotFound", "InvalidGroup.InUse", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound", "InvalidSecurityGroupId.Malformed",
		"SecurityGroupsPerInstanceLimitExceeded", "SecurityGroupsPerInterfaceLimitExceeded":
		return "spec.securityGroups"
	case "InvalidKeyPair.NotFound", "InvalidKey.Format":
		return "spec.keyName"
	case "InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed", "PlacementGroupLimitExceeded", "InvalidHostID.NotFound", "InvalidHostID.Malformed", "InvalidHostId.NotFound", "InvalidHostId.Malformed", "InvalidTenancy", "InvalidHostState":
		return "spec.placement"
	case "InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed", "CapacityReservationMismatch":
		return "spec.capacityReservation"
	case "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.Malformed", "InvalidLaunchTemplateId.VersionNotFound",
		"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateName.MalformedException":
		return "spec.launchTemplate"
	case "InvalidBlockDeviceMapping", "InvalidSnapshot.NotFound", "InvalidSnapshotID.Malformed", "InvalidVolume", "InvalidDevice.InUse", "UnknownVolumeType",
		"InvalidKmsKey.InvalidState", "UnsupportedOperation.KmsKey", "AttachmentLimitExceeded", "InstanceVolumeLimitExceeded", "EncryptedVolumesNotSupported":
		return "spec.volumes"
	case "InvalidUserData.Malformed":
		return "bootstrap data"
	case "InvalidTagKey.Malformed", "TagLimitExceeded", "InvalidTag":
		return "spec.tags"
	default:
		return generalFieldOf(code)
	}
}

// generalFieldOf returns the whole spec for codes whose message alone names the parameter.
func generalFieldOf(code string) string {
	switch code {
	case "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterDependency", "InvalidInput", "InvalidZone.NotFound", "InvalidFilter", "FilterLimitExceeded",
		"MissingParameter", "UnknownParameter", "ValidationError", "UnsupportedOperation", "UnsupportedTenancy", "NonEBSInstance", "InvalidNetworkInterface.NotFound", "PrivateIpAddressLimitExceeded":
		return "spec"
	default:
		return ""
	}
}

// errorCode returns EC2's code, empty for an error that did not come from EC2.
func errorCode(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return ""
}

// stableError leaves out of an error what differs from call to call, because it ends up in a condition: request IDs,
// ports, times, and the encoded message of a missing permission.
func stableError(err error) error {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", answer.ErrorCode(), errorMessage(answer))
	}
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return fmt.Errorf("EC2 answered %d %s", answer.HTTPStatusCode(), http.StatusText(answer.HTTPStatusCode()))
	}
	return driver.StableNetworkError(err, "calling EC2")
}

func errorMessage(answer smithy.APIError) string {
	switch answer.ErrorCode() {
	case "RequestExpired", "SignatureDoesNotMatch":
		return "EC2 rejects the signature: the secret key or the clock of the provider's host is wrong"
	}
	message, _, _ := strings.Cut(answer.ErrorMessage(), " Encoded authorization failure message:")
	return cmp.Or(message, "EC2 gave no reason")
}
