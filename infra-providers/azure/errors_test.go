// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// TestRefusedRequests has every request of a creation refused in the ways of Azure.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	passing := func(err error) bool {
		return err != nil && !driver.IsInvalidConfiguration(err) && !driver.IsUnauthorized(err) && !driver.IsInsufficientCapacity(err) && !driver.IsQuotaExceeded(err) && !driver.IsRateLimited(err)
	}
	for name, test := range map[string]struct {
		fault azurefake.Fault
		is    func(error) bool
		text  string
	}{
		"a size that is not available":    {azurefake.Fault{On: putMachine, Status: 409, Code: "SkuNotAvailable", Message: "no capacity"}, driver.IsInsufficientCapacity, `no capacity for "Standard_D2s_v5" in "westeurope-1"`},
		"a full zone":                     {azurefake.Fault{On: putMachine, Status: 409, Code: "ZonalAllocationFailed", Message: "full"}, driver.IsInsufficientCapacity, "westeurope-1"},
		"a full location":                 {azurefake.Fault{On: putMachine, Status: 409, Code: "AllocationFailed", Message: "full"}, driver.IsInsufficientCapacity, ""},
		"too many constraints":            {azurefake.Fault{On: putMachine, Status: 409, Code: "OverconstrainedAllocationRequest", Message: "full"}, driver.IsInsufficientCapacity, ""},
		"a full subnet":                   {azurefake.Fault{On: putInterface, Status: 400, Code: "SubnetIsFull", Message: "full"}, driver.IsInsufficientCapacity, ""},
		"a quota of cores":                {azurefake.Fault{On: putMachine, Status: 409, Code: "OperationNotAllowed", Message: "exceeding approved quota"}, driver.IsQuotaExceeded, ""},
		"a quota":                         {azurefake.Fault{On: putMachine, Status: 403, Code: "QuotaExceeded", Message: "quota"}, driver.IsQuotaExceeded, ""},
		"a quota of addresses":            {azurefake.Fault{On: "PublicIPAddressesClient.BeginCreateOrUpdate", Status: 400, Code: "PublicIPCountLimitReached", Message: "quota"}, driver.IsQuotaExceeded, ""},
		"a quota of static addresses":     {azurefake.Fault{On: "PublicIPAddressesClient.BeginCreateOrUpdate", Status: 400, Code: "StaticPublicIPCountLimitReached", Message: "quota"}, driver.IsQuotaExceeded, ""},
		"a quota of addresses of the SKU": {azurefake.Fault{On: "PublicIPAddressesClient.BeginCreateOrUpdate", Status: 400, Code: "IPv4StandardSkuPublicIpCountLimitReached", Message: "quota"}, driver.IsQuotaExceeded, ""},
		"throttling":                      {azurefake.Fault{On: putMachine, Status: 429, Code: "OperationNotAllowed", Message: "too many", RetryAfter: "17"}, driver.IsRateLimited, ""},
		"a missing permission":            {azurefake.Fault{On: putMachine, Status: 403, Code: "LinkedAuthorizationFailed", Message: "no join"}, driver.IsUnauthorized, "LinkedAuthorizationFailed"},
		"an unregistered subscription":    {azurefake.Fault{On: putMachine, Status: 409, Code: "MissingSubscriptionRegistration", Message: "register"}, driver.IsUnauthorized, ""},
		"a policy":                        {azurefake.Fault{On: putMachine, Status: 403, Code: "RequestDisallowedByPolicy", Message: "policy"}, driver.IsInvalidConfiguration, "RequestDisallowedByPolicy"},
		"terms that were not accepted":    {azurefake.Fault{On: putMachine, Status: 400, Code: "MarketplacePurchaseEligibilityFailed", Message: "accept"}, driver.IsInvalidConfiguration, "spec.image"},
		"an unknown 400":                  {azurefake.Fault{On: putMachine, Status: 400, Code: "SomethingNew", Message: "invalid"}, driver.IsInvalidConfiguration, "spec: Azure: SomethingNew"},
		"a version that is not served":    {azurefake.Fault{On: putMachine, Status: 404, Code: "InvalidResourceType", Message: "no such version"}, passing, "InvalidResourceType"},
		"another operation":               {azurefake.Fault{On: putInterface, Status: 409, Code: "AnotherOperationInProgress", Message: "wait"}, driver.IsUnfinished, ""},
		"an unknown conflict":             {azurefake.Fault{On: putMachine, Status: 409, Code: "SomethingNew", Message: "conflict"}, passing, ""},
		"an internal error":               {azurefake.Fault{On: putMachine, Status: 500, Code: "InternalServerError", Message: "request 4711"}, passing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{})
			arm.cloud.FailNext(test.fault)
			_, err := arm.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, everything)))
			if !test.is(err) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "4711") {
				t.Errorf("the text has the ID of the request: %v", err)
			}
			if test.fault.RetryAfter != "" && driver.RetryAfter(err) != 17*time.Second {
				t.Errorf("got a pause of %s, want 17s", driver.RetryAfter(err))
			}
		})
	}
}

// TestShortageOfARequest: a placement group may be full although its zone is not.
func TestShortageOfARequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AzureMachineSpec)
		want   bool
	}{
		"of a zone":              {unchanged, false},
		"of a placement group":   {func(s *infrav1.AzureMachineSpec) { s.ProximityPlacementGroupID = azurefake.SubnetID }, true},
		"of an availability set": {func(s *infrav1.AzureMachineSpec) { s.Zone, s.AvailabilitySetID = "", azurefake.SubnetID }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{})
			arm.cloud.FailNext(azurefake.Fault{On: putMachine, Status: 409, Code: "AllocationFailed", Message: "full"})
			_, err := arm.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, test.change)))
			if short, ok := errors.AsType[*driver.InsufficientCapacityError](err); !ok || short.OfRequest != test.want {
				t.Errorf("got %+v, want OfRequest %t", err, test.want)
			}
		})
	}
}

// TestAnswersOfOtherPrograms, such as a proxy, prove nothing.
func TestAnswersOfOtherPrograms(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden, http.StatusBadGateway} {
		arm.cloud.FailNext(azurefake.Fault{Status: status})
		if _, err := arm.connect(t).Get(t.Context(), identity); err == nil || driver.IsNotFound(err) || driver.IsUnauthorized(err) {
			t.Errorf("%d without a code: got %v", status, err)
		}
	}
}

// TestTypeThatIsNotServedProvesNothing: a cloud that does not have, or no longer has, a version of an API answers 404 to each read.
func TestTypeThatIsNotServedProvesNothing(t *testing.T) {
	t.Parallel()
	withoutUID := identity
	withoutUID.UID = ""
	for name, id := range map[string]driver.Identity{"with a UID": identity, "without the UID that a restore lost": withoutUID} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{})
			d := arm.connect(t)
			created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
			if err != nil {
				t.Fatal(err)
			}
			id.ProviderID = created.ProviderID
			fault := azurefake.Fault{On: "VirtualMachinesClient.Get", Status: http.StatusNotFound, Code: "InvalidResourceType", Message: "no such version"}
			arm.cloud.FailNext(fault)
			if found, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
				t.Errorf("Get: got %+v and the error %v, want one that may pass", found, err)
			}
			arm.cloud.FailNext(fault)
			if err := d.Delete(t.Context(), id); err == nil || driver.IsNotFound(err) {
				t.Errorf("Delete: got %v, want an error that may pass", err)
			}
		})
	}
}
