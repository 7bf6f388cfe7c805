// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	"github.com/alibabacloud-go/tea/dara"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Codes of ECS that decide what the driver does next.
const (
	codeTokenMismatch = "IdempotentParameterMismatch"
	codeTokenInUse    = "IdempotentProcessing"
	codeTokenFailed   = "IdempotentFailed"
	codeInitializing  = "IncorrectInstanceStatus.Initializing"
)

var (
	// errNotListedYet means that ECS may have created an instance that it does not list yet.
	errNotListedYet = errors.New("the instance was requested a moment ago and ECS does not list it yet")
	// errCreationUnknown means that ECS may have created an instance for an earlier process that it does not list yet.
	errCreationUnknown = errors.New("ECS does not list the instance; it may not yet list what was requested before this provider started, which takes up to two minutes")
	// errSamePage means that a list does not end.
	errSamePage = errors.New("the list of ECS has the same page twice")
)

// answer is an error that a service of Alibaba Cloud answered with.
type answer interface {
	error
	GetCode() *string
	GetStatusCode() *int
	GetData() map[string]any
}

// toCreateError converts an error of RunInstances, where an invalid parameter is an invalid spec.
func toCreateError(err error, config InstanceConfig) error {
	reason := stableError(err)
	code := errorCode(err)
	instanceType, zone := toOffering(config)
	switch {
	case isStock(code):
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: placed(config.Spec), Err: reason}
	case isStockOfRequest(code):
		return &driver.InsufficientCapacityError{InstanceType: instanceType, Zone: zone, OfRequest: true, Err: reason}
	case isQuota(code):
		return &driver.QuotaExceededError{Err: reason}
	}
	if failed := toError(err); driver.IsUnauthorized(failed) || driver.IsRateLimited(failed) {
		return failed
	}
	if field := fieldOf(code); field != "" && statusOf(err) < http.StatusInternalServerError {
		return &driver.InvalidConfigurationError{Field: field, Err: reason}
	}
	return toError(err)
}

// toLookupError converts an error of a look-up of images or instance types. Their parameters are those of the spec.
func toLookupError(err error) error {
	failed := toError(err)
	if driver.IsUnauthorized(failed) || driver.IsRateLimited(failed) || statusOf(err) >= http.StatusInternalServerError {
		return failed
	}
	switch field := fieldOf(errorCode(err)); field {
	case "":
		return failed
	default:
		return &driver.InvalidConfigurationError{Field: field, Err: stableError(err)}
	}
}

// toDryRunError converts the answer to a dry run of a list, which is an error in any case. It fails unless ECS has checked the
// permission: a list without it may be answered like one that is empty.
func toDryRunError(err error) error {
	failed := toError(err)
	if status := statusOf(err); driver.IsUnauthorized(failed) || driver.IsRateLimited(failed) || status == 0 || status >= http.StatusInternalServerError {
		return failed
	}
	return nil
}

// placed reports whether a spec requests a part of the zone only, which may be full by itself.
func placed(spec infrav1.AlibabaMachineSpec) bool {
	return spec.DeploymentSetID != "" || spec.DedicatedHostID != "" || spec.PrivatePool.ID != ""
}

// toError converts an error of any call.
func toError(err error) error {
	if err == nil {
		return nil
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		if status.status == http.StatusTooManyRequests {
			pause, _ := driver.ParseRetryAfter(status.header, time.Now())
			return &driver.RateLimitedError{RetryAfter: pause, Err: status}
		}
		return status
	}
	if moved, ok := errors.AsType[*driver.AccountMismatchError](err); ok {
		return moved
	}
	code := errorCode(err)
	switch {
	case code == "InvalidInstanceId.NotFound":
		return &driver.NotFoundError{What: "the ECS instance"}
	case code == "Throttling" || strings.HasPrefix(code, "Throttling.") || statusOf(err) == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: retryAfter(err), Err: stableError(err)}
	case isRefusal(code):
		return &driver.UnauthorizedError{Err: stableError(err)}
	default:
		return stableError(err)
	}
}

// retryAfter returns the pause that the headers of an answer request.
func retryAfter(err error) time.Duration {
	if limited, ok := errors.AsType[*openapi.ThrottlingError](err); ok {
		return max(time.Duration(dara.Int64Value(limited.RetryAfter))*time.Millisecond, 0)
	}
	return 0
}

// isRefusal reports whether a code means that the credentials are refused or lack a permission.
func isRefusal(code string) bool {
	switch family(code) {
	case "Forbidden", "Forbbiden", "Forbedden", "InvalidAccessKeyId", "InvalidAccessKeySecret", "InvalidSecurityToken", "SignatureDoesNotMatch", "IncompleteSignature",
		"InvalidTimeStamp", "MissingAccessKeyId", "MissingSecurityToken", "NoPermission", "Unauthorized", "UnauthorizedOperation", "NotAuthorized",
		"AuthenticationFail", "EntityNotExist", "InvalidOperator":
		return true
	default:
		return code == "InvalidUser.PassRoleForbidden" || code == "InvalidRamRole.NotEcsRole" || code == "InvalidCredentials"
	}
}

// isStock reports whether a code means that the zone has no stock of an instance type.
func isStock(code string) bool {
	switch code {
	case "OperationDenied.NoStock", "OperationDenied.ResourceInsufficient", "Zone.NotOnSale", "Zone.NotOpen", "OperationDenied.ZoneNotAllowed",
		"InvalidResourceType.NotSupported", "InvalidInstanceType.ZoneNotSupported", "ResourceNotAvailable", "ResourcesNotInSameZone", "LackResource", "InstanceType.Offline":
		return true
	default:
		return false
	}
}

// isStockOfRequest reports whether a code means that something else of the request is not to be had: another request for the
// type in the zone may succeed.
func isStockOfRequest(code string) bool {
	switch code {
	case "InvalidVSwitchId.IpNotEnough", "InvalidVSwitchID.IpNotEnough", "InvalidSpotPriceLimit.LowerThanPublicPrice", "OperationDenied.ZoneSystemCategoryNotMatch",
		"OperationDenied.CloudSSDNotSupported", "InvalidVpcZone.NotSupported", "InvalidZoneId.NotSupportShareEncryptedImage", "InvalidSystemDiskCategory.ValueNotSupported",
		"InvalidDataDiskCategory.NotSupported", "InvalidDedicatedHost.NotEnoughResource", "Invalid.PrivatePoolOptions.NoStock", "DeploymentSet.NoRoom",
		"DeploymentSet.InstanceQuotaFull", "DeploymentSetInstanceQuotaFull", "QuotaExceed.DeploymentSetInstanceQuotaFull", "OperationDenied.DeploymentSetNoStock",
		"QuotaExceeded.PrivateIpAddress", "CategoryNotSupported", "InvalidDiskCategory.NotSupported":
		return true
	default:
		return false
	}
}

// isQuota reports whether a code means that the account may not have more of something.
func isQuota(code string) bool {
	switch family(code) {
	case "QuotaExceed", "QuotaExceeded", "InstanceQuotaExceed", "SecurityGroupInstanceLimitExceed", "SecurityGroupInstanceLimitExceeded", "EniPerSecurityGroupLimitExceed",
		"InsufficientBalance":
		return true
	default:
		return code == "InvalidAccountStatus.NotEnoughBalance" || code == "Account.Arrearage"
	}
}

// fields are the fields at fault, by the family of codes that only another spec avoids.
var fields = map[string]string{
	"InvalidImageId": "spec.image", "InvalidImage": "spec.image", "InvalidImageFamily": "spec.image", "InvalidImageName": "spec.image", "ImageNotSupportInstanceType": "spec.image",
	"InvalidImageType": "spec.image", "InvalidImageOwnerAlias": "spec.image", "InvalidImageOwnerId": "spec.image", "ImageNotSubscribed": "spec.image",
	"InvalidInstanceType": "spec.instanceType", "InvalidInstanceTypes": "spec.instanceType",
	"InvalidVSwitchId": "spec.vSwitches", "InvalidVSwitch": "spec.vSwitches", "InvalidVpcId": "spec.vSwitches", "VSwitchIdNotMatch": "spec.vSwitches",
	"InvalidSecurityGroupId": "spec.securityGroupIDs", "InvalidSecurityGroup": "spec.securityGroupIDs", "SecurityGroupNotInVpc": "spec.securityGroupIDs",
	"InvalidKeyPairName": "spec.keyPairName", "InvalidKeyPair": "spec.keyPairName", "KeyPairNotFound": "spec.keyPairName",
	"InvalidRamRole": "spec.ramRoleName", "InvalidRamRoleName": "spec.ramRoleName", "InvalidRAMRoleName": "spec.ramRoleName",
	"InvalidDeploymentSetId": "spec.deploymentSetID", "InvalidDeploymentSet": "spec.deploymentSetID", "InvalidDeploymentSetGroupNo": "spec.deploymentSetGroup",
	"InvalidDedicatedHostId": "spec.dedicatedHostID", "InvalidDedicatedHost": "spec.dedicatedHostID",
	"InvalidSystemDisk": "spec.systemDisk", "InvalidSystemDiskCategory": "spec.systemDisk", "InvalidSystemDiskSize": "spec.systemDisk", "InvalidPerformanceLevel": "spec.systemDisk",
	"InvalidDataDisk": "spec.dataDisks", "InvalidDataDiskCategory": "spec.dataDisks", "InvalidDataDiskSize": "spec.dataDisks", "InvalidSnapshotId": "spec.dataDisks",
	"InvalidSnapshot": "spec.dataDisks", "InvalidDiskName": "spec.dataDisks", "InstanceDiskNumber": "spec.dataDisks",
	"InvalidUserData": "bootstrap data",
	"InvalidTag":      "spec.tags", "InvalidTagKey": "spec.tags", "InvalidTagValue": "spec.tags", "NumberExceed": "spec.tags", "Duplicate": "spec.tags",
	"InvalidZoneId": "spec.zoneID", "InvalidRegionId": "spec.regionID",
	"InvalidInternetChargeType": "spec.internetChargeType", "InvalidInternetMaxBandwidthOut": "spec.internetMaxBandwidthOut",
	"InvalidSpotPriceLimit": "spec.spot", "InvalidSpotStrategy": "spec.spot", "InvalidSpotDuration": "spec.spot", "InvalidSpotParam": "spec.spot",
	"InvalidResourceGroup": "spec.resourceGroupID", "InvalidHostName": "metadata.name", "InvalidInstanceName": "metadata.name",
	"InvalidPrivatePoolOptions": "spec.privatePool", "InvalidCreditSpecification": "spec.creditSpecification",
	"InvalidParameter": "spec", "InvalidParams": "spec", "InvalidParam": "spec", "MissingParameter": "spec", "MissingParam": "spec", "UnsupportedParameter": "spec",
	"InvalidParamater": "spec", "IncorrectParameter": "spec", "InvalidChargeType": "spec", "InvalidNetworkType": "spec", "InvalidCombination": "spec",
}

// fieldOf returns the field at fault for a code that only another spec avoids, and an empty string for any other code.
func fieldOf(code string) string {
	if strings.HasPrefix(code, "InvalidParameter.KMSKeyId") || strings.HasPrefix(code, "InvalidParameter.Encrypted") {
		return "spec.systemDisk" // or a data disk, which the message names
	}
	return fields[family(code)]
}

// family returns the part of a code before the first dot: what follows tells how it is wrong.
func family(code string) string {
	before, _, _ := strings.Cut(code, ".")
	return before
}

// errorCode returns the code of an answer, empty for an error that did not come from Alibaba Cloud.
func errorCode(err error) string {
	if answered, ok := errors.AsType[answer](err); ok {
		return dara.StringValue(answered.GetCode())
	}
	return ""
}

// statusOf returns the status of an answer, zero for an error that did not come from Alibaba Cloud.
func statusOf(err error) int {
	if answered, ok := errors.AsType[answer](err); ok {
		return dara.IntValue(answered.GetStatusCode())
	}
	return 0
}

// stableError leaves out of an error what differs from call to call, because it ends up in a condition: request IDs, ports and
// times.
func stableError(err error) error {
	answered, ok := errors.AsType[answer](err)
	if !ok {
		return driver.TransportError(err, "calling Alibaba Cloud")
	}
	code := dara.StringValue(answered.GetCode())
	switch family(code) {
	case "InvalidTimeStamp", "SignatureDoesNotMatch":
		return fmt.Errorf("%s: Alibaba Cloud rejects the signature: the secret of the access key or the clock of the provider's host is wrong", code)
	}
	message, _ := answered.GetData()["Message"].(string)
	return fmt.Errorf("%s: %s", cmp.Or(code, fmt.Sprintf("status %d", statusOf(err))), cmp.Or(message, "Alibaba Cloud gave no reason"))
}
