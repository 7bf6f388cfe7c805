// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"drover.io/infra-providers/driver"
)

// EC2's codes that decide what to do next and not only how to tell it.
const (
	codeTokenMismatch   = "IdempotentParameterMismatch"
	codeTokenTerminated = "IdempotentInstanceTerminated"
)

// errUnlisted says that EC2 may have made an instance that it does not show yet.
var errUnlisted = errors.New("the instance was asked for a moment ago and EC2 does not list it yet")

// errYoung says that EC2 may have made an instance for an earlier process that it does not show yet.
var errYoung = errors.New("EC2 does not show the instance, but may not show yet what was asked for before this process started two minutes ago at most")

// refused converts an error of a creation: there, what EC2 says about the parameters is about the spec.
func refused(err error, config Config) error {
	words := plain(err)
	instanceType, zone := place(config)
	switch code := codeOf(err); code {
	case "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity", "InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded", "InsufficientVolumeCapacity", "InsufficientFreeAddressesInSubnet",
		"InsufficientAddressCapacity", "SpotMaxPriceTooLow", "UnfulfillableCapacity", "Unsupported":
		// Unsupported is how EC2 says that a zone does not have the type; another zone may.
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, Err: words}
	case "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "SpotInstanceCountExceeded", "HostLimitExceeded", "VolumeLimitExceeded",
		"MaxIOPSLimitExceeded", "NetworkInterfaceLimitExceeded", "AddressLimitExceeded", "ResourceLimitExceeded", "InstanceCreditSpecificationLimitExceeded":
		return &driver.QuotaExceededError{Err: words}
	default:
		if field := fieldOf(code); field != "" {
			return &driver.InvalidConfigurationError{Field: field, Err: words}
		}
		return toError(err)
	}
}

// toError converts an error of any call.
func toError(err error) error {
	switch codeOf(err) {
	case "":
		if known, ok := errors.AsType[*driver.UnauthorizedError](err); ok {
			return known
		}
		return plain(err)
	case "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed":
		return &driver.NotFoundError{What: "the EC2 instance"}
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"EC2ThrottledException", "BandwidthLimitExceeded", "TooManyRequestsException", "PriorRequestNotComplete", "SlowDown", "ResourceCountLimitExceeded":
		return &driver.RateLimitedError{Err: plain(err)}
	case "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "Blocked", "ExpiredToken", "ExpiredTokenException",
		"IncompleteSignature", "InvalidClientTokenId", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired", "PendingVerification",
		"RequestExpired", "SignatureDoesNotMatch", "UnauthorizedException", "UnrecognizedClientException":
		return &driver.UnauthorizedError{Err: plain(err)}
	default:
		return plain(err)
	}
}

// fieldOf says which field is at fault for a code that only another spec can mend, and nothing for others.
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
		return generalField(code)
	}
}

// generalField is the whole spec for codes that say that something is wrong and only their words say what.
func generalField(code string) string {
	switch code {
	case "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterDependency", "InvalidInput", "InvalidZone.NotFound", "InvalidFilter", "FilterLimitExceeded",
		"MissingParameter", "UnknownParameter", "ValidationError", "UnsupportedOperation", "UnsupportedTenancy", "NonEBSInstance", "InvalidNetworkInterface.NotFound", "PrivateIpAddressLimitExceeded":
		return "spec"
	default:
		return ""
	}
}

// codeOf returns EC2's code, or nothing for an error that did not come from EC2.
func codeOf(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return ""
}

// plain leaves out of an error what differs each time, because it ends up in a condition: request IDs,
// ports, times, and the encoded message of a missing permission.
func plain(err error) error {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", answer.ErrorCode(), message(answer))
	}
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return fmt.Errorf("EC2 answered %d %s", answer.HTTPStatusCode(), http.StatusText(answer.HTTPStatusCode()))
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return fmt.Errorf("calling EC2: %w", ended)
		}
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("calling EC2: %s: %w", failed.Op, failed.Err)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("calling EC2: %w", failed.Err)
	}
	return err
}

func message(answer smithy.APIError) string {
	switch answer.ErrorCode() {
	case "RequestExpired", "SignatureDoesNotMatch":
		return "EC2 does not take the signature: the secret key or the clock of the provider's host is wrong"
	}
	words, _, _ := strings.Cut(answer.ErrorMessage(), " Encoded authorization failure message:")
	return cmp.Or(words, "EC2 gave no reason")
}
