// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"drover.io/infra-providers/driver"
)

var (
	errPreparing = errors.New("Azure is creating the network interface or its public address") //nolint:staticcheck // it is a name
	errCreating  = errors.New("Azure is creating the virtual machine")                         //nolint:staticcheck // it is a name
	errCleaning  = errors.New("Azure is deleting what an earlier attempt left")                //nolint:staticcheck // it is a name
)

// answer is an error of the API.
type answer struct {
	status                int
	code, message, target string
	retryAfter            time.Duration
}

func (a answer) reason() error {
	if a.status >= http.StatusInternalServerError {
		return fmt.Errorf("Azure: %s", a.code) //nolint:staticcheck // it is a name, and the message has the ID of the request
	}
	return fmt.Errorf("Azure: %s: %s", a.code, cmp.Or(a.message, http.StatusText(a.status))) //nolint:staticcheck // it is a name
}

// toAnswer returns the error of the API in an error; ok is false for an answer of another program, such as a proxy.
func toAnswer(err error) (answer, bool) {
	refused, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || refused.ErrorCode == "" {
		return answer{}, false
	}
	found := answer{status: refused.StatusCode, code: refused.ErrorCode}
	if refused.RawResponse == nil {
		return found, true
	}
	found.retryAfter = retryAfter(refused.RawResponse.Header)
	body := struct {
		Error struct{ Message, Target string }
	}{}
	if content, err := runtime.Payload(refused.RawResponse); err == nil && json.Unmarshal(content, &body) == nil {
		found.message, found.target = body.Error.Message, body.Error.Target
	}
	return found, true
}

// toError converts an error of any call.
func toError(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := toAnswer(err)
	if !ok {
		return toTransportError(err)
	}
	switch {
	case answer.status == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: answer.retryAfter, Err: answer.reason()}
	case answer.status >= http.StatusInternalServerError:
		return answer.reason()
	case isUnauthorizedCode(answer.code), answer.status == http.StatusUnauthorized:
		return &driver.UnauthorizedError{Err: answer.reason()}
	case isBusyCode(answer.code):
		return &driver.UnfinishedError{Err: answer.reason()}
	case answer.status == http.StatusForbidden && answer.code != policyCode:
		return &driver.UnauthorizedError{Err: answer.reason()}
	default:
		return answer.reason()
	}
}

// policyCode is that of a request that a policy of the organisation forbids.
const policyCode = "RequestDisallowedByPolicy"

// isUnauthorizedCode reports whether the credentials are refused, lack a permission, or lead to no subscription or resource group:
// in one that does not exist nothing would be found.
func isUnauthorizedCode(code string) bool {
	switch code {
	case "AuthorizationFailed", "LinkedAuthorizationFailed", "AuthenticationFailed", "AuthenticationFailedMissingToken",
		"InvalidAuthenticationToken", "InvalidAuthenticationTokenTenant", "InvalidAuthenticationTokenAudience", "ExpiredAuthenticationToken",
		"SubscriptionNotFound", "InvalidSubscriptionId", "SubscriptionNotRegistered", "MissingSubscriptionRegistration",
		"ReadOnlyDisabledSubscription", "DisallowedOperation", "ResourceGroupNotFound":
		return true
	default:
		return false
	}
}

// isBusyCode reports whether a request is refused only until another one has ended. A network interface is reserved for three
// minutes for the virtual machine that could not be created with it.
func isBusyCode(code string) bool {
	switch code {
	case "AnotherOperationInProgress", "NicReservedForAnotherVm", "NicInUse", "OperationPreempted", "ReferencedResourceNotProvisioned",
		"RetryableError", "RetryableErrorDueToAnotherOperation", "PublicIPAddressCannotBeDeleted", "InUsePublicIpAddressCannotBeDeleted",
		"NetworkInterfaceInUse", "NicInUseWithPrivateEndpoint", "DiskServiceInternalError", "AttachDiskWhileBeingDetached", "ResourceGroupBeingDeleted":
		return true
	default:
		return false
	}
}

// toTransportError converts what is no error of the API.
func toTransportError(err error) error {
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		if refused.StatusCode == http.StatusTooManyRequests && refused.RawResponse != nil {
			return &driver.RateLimitedError{RetryAfter: retryAfter(refused.RawResponse.Header), Err: errLimited}
		}
		return fmt.Errorf("Azure did not answer, but a program before it: %d %s", refused.StatusCode, http.StatusText(refused.StatusCode)) //nolint:staticcheck // it is a name
	}
	return driver.TransportError(err, "calling Azure")
}

var errLimited = errors.New("Azure limits the requests") //nolint:staticcheck // it is a name

// toCreateError converts an error of a request for a resource and of the look-ups before it, where what does not exist or is
// invalid is an invalid spec.
func toCreateError(err error, config InstanceConfig, field string) error {
	answer, ok := toAnswer(err)
	if !ok {
		return toError(err)
	}
	if short := toShortage(answer.code, config, answer.reason()); short != nil && answer.status < http.StatusInternalServerError && answer.status != http.StatusTooManyRequests {
		return short
	}
	known := toError(err)
	switch {
	case driver.IsRateLimited(known), driver.IsUnauthorized(known), driver.IsUnfinished(known), nameInUse(err), answer.status == http.StatusNotFound && isUnservedCode(answer.code):
		return known
	case answer.status == http.StatusBadRequest, answer.status == http.StatusNotFound, answer.status == http.StatusForbidden:
		return &driver.InvalidConfigurationError{Field: toField(answer, field), Err: answer.reason()}
	case isInvalidCode(answer.code):
		return &driver.InvalidConfigurationError{Field: toField(answer, field), Err: answer.reason()}
	default:
		return known
	}
}

// toFailure returns the kind of the code with which a virtual machine that was accepted could not be started.
func toFailure(code string, config InstanceConfig) error {
	reason := fmt.Errorf("Azure could not start the virtual machine: %s", cmp.Or(code, "no reason is known")) //nolint:staticcheck // it is a name
	if short := toShortage(code, config, reason); short != nil {
		return short
	}
	if isInvalidCode(code) {
		return &driver.InvalidConfigurationError{Field: toField(answer{code: code}, "spec"), Err: reason}
	}
	return reason
}

// toShortage returns the kind of a code for a lack of capacity or quota, and nil for any other code. Azure answers
// OperationNotAllowed where a virtual machine exceeds a quota of cores, and names the quota in the text only.
func toShortage(code string, config InstanceConfig, reason error) error {
	size, zone := toOffering(config)
	switch code {
	case "SkuNotAvailable", "AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest":
		return &driver.InsufficientCapacityError{InstanceType: size, Zone: zone, OfRequest: placed(config), Err: reason}
	case "SubnetIsFull", "CapacityReservationGroupNotAvailable", "OverprovisionedCapacityReservation", "MaxPriceTooLow", "EvictedByMaxPrice":
		return &driver.InsufficientCapacityError{InstanceType: size, Zone: zone, OfRequest: true, Err: reason}
	case "QuotaExceeded", "ResourceQuotaExceeded", "OperationNotAllowed", "ResourceCountExceedsLimit":
		return &driver.QuotaExceededError{Err: reason}
	default:
		if strings.HasSuffix(strings.ToLower(code), "countlimitreached") { // of addresses there is one for each SKU and method
			return &driver.QuotaExceededError{Err: reason}
		}
		return nil
	}
}

// placed reports whether a configuration requests a part of the zone only, which may be full by itself.
func placed(config InstanceConfig) bool {
	spec := config.Spec
	return spec.AvailabilitySetID != "" || spec.ProximityPlacementGroupID != "" || spec.CapacityReservationGroupID != ""
}

// isInvalidCode reports whether only another spec avoids an error that is no 400, 403 or 404.
func isInvalidCode(code string) bool {
	switch code {
	case "InvalidParameter", "BadRequest", "InvalidResourceReference", "ImageNotFound", "PlatformImageNotFound", "GalleryImageNotFound",
		"VMMarketplaceInvalidInput", "MarketplacePurchaseEligibilityFailed", "ResourcePurchaseValidationFailed", "VMSizeNotSupported",
		"AvailabilityZoneNotSupported", "PropertyChangeNotAllowed", "VirtualNetworkNotInSameLocation", policyCode:
		return true
	default:
		return false
	}
}

// codeFields are the fields of the spec for codes, and targetFields for the targets of the API, in lower case.
var (
	codeFields = map[string]string{
		"ImageNotFound": "spec.image", "PlatformImageNotFound": "spec.image", "GalleryImageNotFound": "spec.image",
		"VMMarketplaceInvalidInput": "spec.image", "MarketplacePurchaseEligibilityFailed": "spec.image", "ResourcePurchaseValidationFailed": "spec.image",
		"VMSizeNotSupported": "spec.vmSize", "AvailabilityZoneNotSupported": "spec.zone", "VirtualNetworkNotInSameLocation": "spec.networkInterface",
		"NoRegisteredProviderFoundForLocation": "spec.location", "LocationNotAvailableForResourceType": "spec.location",
	}
	targetFields = map[string]string{
		"vmsize": "spec.vmSize", "imagereference": "spec.image", "plan": "spec.image", "osdisk": "spec.osDisk", "datadisk": "spec.dataDisks", "datadisks": "spec.dataDisks",
		"adminusername": "spec.adminUsername", "customdata": "bootstrap data", "userdata": "bootstrap data", "zones": "spec.zone", "zone": "spec.zone",
		"location": "spec.location", "securityprofile": "spec.security", "availabilityset": "spec.availabilitySetID", "priority": "spec.priority",
		"evictionpolicy": "spec.spot", "billingprofile": "spec.spot", "diskcontrollertype": "spec.diskControllerType", "ssh": "spec.sshPublicKeys",
		"linuxconfiguration": "spec.sshPublicKeys", "subnet": "spec.networkInterface", "tags": "spec.tags",
	}
)

// toField returns the field of the spec that an error is about, and otherwise the one that is known.
func toField(a answer, known string) string {
	for part := range strings.SplitSeq(strings.ToLower(a.target), ".") {
		part, _, _ = strings.Cut(part, "[")
		if field, ok := targetFields[part]; ok {
			return field
		}
	}
	return cmp.Or(codeFields[a.code], known)
}

// nameInUse reports whether a virtual machine was not created because one of the name exists, or is being deleted.
func nameInUse(err error) bool {
	answer, ok := toAnswer(err)
	return ok && (answer.status == http.StatusPreconditionFailed || answer.status == http.StatusConflict && (answer.code == "Conflict" || answer.code == "ConflictingUserInput" || answer.code == "PropertyChangeNotAllowed"))
}

// isNotFound reports whether the API answered that a resource does not exist. One in a resource group or a subscription that
// does not exist proves nothing.
func isNotFound(err error) bool {
	answer, ok := toAnswer(err)
	return ok && answer.status == http.StatusNotFound && !isUnauthorizedCode(answer.code) && !isUnservedCode(answer.code)
}

// isUnservedCode reports whether a 404 is about the request: Resource Manager does not have the version of the API, such as one
// that was retired or has not reached every cloud, for the type of the resource.
func isUnservedCode(code string) bool {
	switch code {
	case "InvalidResourceType", "InvalidResourceNamespace", "NoRegisteredProviderFound", "MissingSubscription":
		return true
	default:
		return false
	}
}

// retryAfter returns the pause that an answer requests: as other services do, or in milliseconds in a header of Azure's own.
func retryAfter(header http.Header) time.Duration {
	if pause, _ := driver.ParseRetryAfter(header, time.Now()); pause > 0 {
		return pause
	}
	milliseconds, _ := strconv.ParseUint(header.Get("X-Ms-Retry-After-Ms"), 10, 32) // zero without the header
	return time.Duration(milliseconds) * time.Millisecond
}
