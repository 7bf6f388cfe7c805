// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

func TestToError(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"InsufficientInstanceCapacity":                "capacity",
		"InsufficientFreeAddressesInSubnet":           "capacity",
		"SpotMaxPriceTooLow":                          "capacity",
		"Unsupported":                                 "capacity",
		"VcpuLimitExceeded":                           "quota",
		"MaxSpotInstanceCountExceeded":                "quota",
		"VolumeLimitExceeded":                         "quota",
		"RequestLimitExceeded":                        "rate",
		"Throttling":                                  "rate",
		"EC2ThrottledException":                       "rate",
		"UnauthorizedOperation":                       "unauthorized",
		"AuthFailure":                                 "unauthorized",
		"ExpiredToken":                                "unauthorized",
		"OptInRequired":                               "unauthorized",
		"InvalidAMIID.NotFound":                       "invalid spec.image",
		"InvalidInstanceType":                         "invalid spec.instanceType",
		"InvalidSubnetID.NotFound":                    "invalid spec.subnet",
		"InvalidGroup.NotFound":                       "invalid spec.securityGroups",
		"InvalidKeyPair.NotFound":                     "invalid spec.keyName",
		"InvalidPlacementGroup.Unknown":               "invalid spec.placement",
		"InvalidCapacityReservationId.NotFound":       "invalid spec.capacityReservation",
		"InvalidLaunchTemplateName.NotFoundException": "invalid spec.launchTemplate",
		"InvalidBlockDeviceMapping":                   "invalid spec.volumes",
		"InvalidUserData.Malformed":                   "invalid bootstrap data",
		"TagLimitExceeded":                            "invalid spec.tags",
		"InvalidParameterValue":                       "invalid spec",
		"InvalidInstanceID.NotFound":                  "not found",
		"InternalError":                               "transient",
		"Unavailable":                                 "transient",
		"SomethingNew":                                "transient",
		codeTokenMismatch:                             "transient",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("operation error EC2: %w", &smithy.GenericAPIError{Code: code, Message: "words"})
			if diff := cmp.Diff(want, kindOf(toCreateError(err, InstanceConfig{}))); diff != "" {
				t.Errorf("creating (-want +got):\n%s", diff)
			}
			// An invalid spec must never prevent a deletion.
			if reading := toError(err); driver.IsInvalidConfiguration(reading) || driver.IsQuotaExceeded(reading) || driver.IsInsufficientCapacity(reading) {
				t.Errorf("reading: got %#v", reading)
			}
		})
	}
}

func kindOf(err error) string {
	if invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err); ok {
		return "invalid " + invalid.Field
	}
	for name, is := range map[string]func(error) bool{
		"capacity": driver.IsInsufficientCapacity, "quota": driver.IsQuotaExceeded, "rate": driver.IsRateLimited,
		"unauthorized": driver.IsUnauthorized, "not found": driver.IsNotFound,
	} {
		if is(err) {
			return name
		}
	}
	return "transient"
}

func TestCapacityErrorHasTypeAndZone(t *testing.T) {
	t.Parallel()
	config := InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Spot: &infrav1.AWSSpot{}}, Zone: "z"}
	got, _ := errors.AsType[*driver.InsufficientCapacityError](toCreateError(&smithy.GenericAPIError{Code: "InsufficientInstanceCapacity", Message: "words"}, config))
	want := &driver.InsufficientCapacityError{InstanceType: "m7i.large (spot)", Zone: "z", Err: errors.New("InsufficientInstanceCapacity: words")}
	if got == nil || got.InstanceType != want.InstanceType || got.Zone != want.Zone || got.Error() != want.Error() {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// TestStableError converts the same failure twice, with another port, request ID or time.
func TestStableError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure func(n int) error
		want    string
	}{
		"leaves out ports": {func(n int) error {
			return &url.Error{Op: "Post", URL: "https://ec2", Err: &net.OpError{Op: "read", Source: &net.TCPAddr{Port: n}, Err: syscall.ECONNRESET}}
		}, "calling EC2: read: connection reset by peer"},
		"leaves out the encoded message": {func(n int) error {
			return &smithy.GenericAPIError{Code: "UnauthorizedOperation", Message: fmt.Sprintf("You are not authorized. Encoded authorization failure message: %d", n)}
		}, "UnauthorizedOperation: You are not authorized."},
		"leaves out times": {func(n int) error {
			return &smithy.GenericAPIError{Code: "SignatureDoesNotMatch", Message: fmt.Sprintf("Signature not yet current: %d", n)}
		}, "SignatureDoesNotMatch: EC2 rejects the signature: the secret key or the clock of the provider's host is wrong"},
		"leaves out request IDs": {func(n int) error {
			return fmt.Errorf("RequestID: %d: %w", n, &smithy.GenericAPIError{Code: "InternalError"})
		}, "InternalError: EC2 gave no reason"},
		"keeps the context's error": {func(n int) error {
			return &url.Error{Op: "Post", URL: fmt.Sprint(n), Err: context.DeadlineExceeded}
		}, "calling EC2: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := [2]string{toError(test.failure(1)).Error(), toError(test.failure(2)).Error()}
			if diff := cmp.Diff([2]string{test.want, test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := toError(&url.Error{Op: "Post", Err: context.Canceled}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// TestWhatOnlyTheRequestLacks: a subnet, a price, a reservation or a host that other requests need not have.
func TestWhatOnlyTheRequestLacks(t *testing.T) {
	t.Parallel()
	grouped := InstanceConfig{}
	grouped.Spec.Placement.Group = "close"
	for name, test := range map[string]struct {
		code   string
		config InstanceConfig
		want   bool
	}{
		"instances in a zone":         {"InsufficientInstanceCapacity", InstanceConfig{}, false},
		"instances near each other":   {"InsufficientInstanceCapacity", grouped, true},
		"addresses of a subnet":       {"InsufficientFreeAddressesInSubnet", InstanceConfig{}, true},
		"a price":                     {"SpotMaxPriceTooLow", InstanceConfig{}, true},
		"a reservation":               {"ReservationCapacityExceeded", InstanceConfig{}, true},
		"a dedicated host":            {"InsufficientHostCapacity", InstanceConfig{}, true},
		"a combination of parameters": {"Unsupported", InstanceConfig{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := toCreateError(&smithy.GenericAPIError{Code: test.code, Message: "words"}, test.config)
			if full, ok := errors.AsType[*driver.InsufficientCapacityError](err); !ok || full.OfRequest != test.want {
				t.Errorf("got %#v, want one of the request: %t", err, test.want)
			}
		})
	}
}
