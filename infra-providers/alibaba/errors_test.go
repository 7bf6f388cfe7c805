// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// answerWith returns an error as the SDK makes it of an answer.
func answerWith(status int, code string) error {
	data := map[string]any{"Code": code, "Message": "a message", "RequestId": "473469C7"}
	message := dara.String("code: 400, a message request id: 473469C7")
	if status >= http.StatusInternalServerError {
		return &openapi.ServerError{StatusCode: &status, Code: &code, Message: message, Data: data}
	}
	return &openapi.ClientError{StatusCode: &status, Code: &code, Message: message, Data: data}
}

func TestToError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"an absence":                   {answerWith(404, "InvalidInstanceId.NotFound"), driver.IsNotFound},
		"another absence":              {answerWith(404, "InvalidDiskId.NotFound"), drivertest.HasNoKind},
		"too many requests":            {answerWith(400, "Throttling"), driver.IsRateLimited},
		"too many requests of a user":  {answerWith(400, "Throttling.User"), driver.IsRateLimited},
		"too many requests of a kind":  {answerWith(400, "Throttling.Concurrent"), driver.IsRateLimited},
		"a status of too many":         {answerWith(429, "TooMany"), driver.IsRateLimited},
		"no permission":                {answerWith(403, "Forbidden.RAM"), driver.IsUnauthorized},
		"an unknown key":               {answerWith(404, "InvalidAccessKeyId.NotFound"), driver.IsUnauthorized},
		"a disabled key":               {answerWith(403, "InvalidAccessKeyId.Inactive"), driver.IsUnauthorized},
		"an expired token":             {answerWith(400, "InvalidSecurityToken.Expired"), driver.IsUnauthorized},
		"a wrong secret":               {answerWith(400, "SignatureDoesNotMatch"), driver.IsUnauthorized},
		"a wrong clock":                {answerWith(400, "InvalidTimeStamp.Expired"), driver.IsUnauthorized},
		"a failure":                    {answerWith(500, "InternalError"), drivertest.HasNoKind},
		"a service that is not there":  {answerWith(503, "ServiceUnavailable"), drivertest.HasNoKind},
		"a locked instance":            {answerWith(403, "InstanceLockedForSecurity"), drivertest.HasNoKind},
		"a status that does not fit":   {answerWith(403, "IncorrectInstanceStatus"), drivertest.HasNoKind},
		"a nonce that was used":        {answerWith(400, "SignatureNonceUsed"), drivertest.HasNoKind},
		"no code":                      {answerWith(404, ""), drivertest.HasNoKind},
		"an absence, says a proxy":     {&statusError{status: 404}, drivertest.HasNoKind},
		"a refusal by a proxy":         {&statusError{status: 403}, drivertest.HasNoKind},
		"too many requests to a proxy": {&statusError{status: 429}, driver.IsRateLimited},
		"no key":                       {errNoOwnKeys, driver.IsUnauthorized},
		"an end of the context":        {context.Canceled, func(err error) bool { return errors.Is(err, context.Canceled) && drivertest.HasNoKind(err) }},
		"another account":              {&driver.AccountMismatchError{Pinned: "a", Connected: "b"}, driver.IsAccountMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
	if got := toError(answerWith(500, "InternalError")).Error(); strings.Contains(got, "473469C7") || !strings.Contains(got, "a message") {
		t.Errorf("%q has a request ID, or no message", got)
	}
}

func TestPausesAreThoseOfTheAnswer(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"the header of ECS": &openapi.ThrottlingError{StatusCode: dara.Int(400), Code: dara.String("Throttling.User"), RetryAfter: dara.Int64(7000)},
		"Retry-After":       &statusError{status: 429, header: http.Header{"Retry-After": {"7"}}},
	} {
		if got := driver.RetryAfter(toError(err)); got != 7*time.Second {
			t.Errorf("%s: got a pause of %s, want 7s", name, got)
		}
	}
}

func TestToCreateError(t *testing.T) {
	t.Parallel()
	ofRequest := func(want bool) func(error) bool {
		return func(err error) bool {
			short, ok := errors.AsType[*driver.InsufficientCapacityError](err)
			return ok && short.OfRequest == want
		}
	}
	invalid := func(field string) func(error) bool {
		return func(err error) bool {
			of, ok := errors.AsType[*driver.InvalidConfigurationError](err)
			return ok && of.Field == field
		}
	}
	set := InstanceConfig{Spec: infrav1.AlibabaMachineSpec{DeploymentSetID: "ds-1"}}
	for name, test := range map[string]struct {
		err    error
		config InstanceConfig
		is     func(error) bool
	}{
		"no stock":                      {answerWith(403, "OperationDenied.NoStock"), InstanceConfig{}, ofRequest(false)},
		"no stock of the type there":    {answerWith(400, "InvalidResourceType.NotSupported"), InstanceConfig{}, ofRequest(false)},
		"a zone that is not on sale":    {answerWith(403, "Zone.NotOnSale"), InstanceConfig{}, ofRequest(false)},
		"a type that is not sold now":   {answerWith(403, "InstanceType.Offline"), InstanceConfig{}, ofRequest(false)},
		"no stock in a deployment set":  {answerWith(403, "OperationDenied.NoStock"), set, ofRequest(true)},
		"no room in a deployment set":   {answerWith(400, "DeploymentSet.NoRoom"), set, ofRequest(true)},
		"a full deployment set":         {answerWith(403, "QuotaExceed.DeploymentSetInstanceQuotaFull"), set, ofRequest(true)},
		"no addresses in the vSwitch":   {answerWith(400, "InvalidVSwitchId.IpNotEnough"), InstanceConfig{}, ofRequest(true)},
		"no more addresses there":       {answerWith(400, "QuotaExceeded.PrivateIpAddress"), InstanceConfig{}, ofRequest(true)},
		"no disks of the category":      {answerWith(403, "CategoryNotSupported"), InstanceConfig{}, ofRequest(true)},
		"no such disks for the type":    {answerWith(403, "InvalidDiskCategory.NotSupported"), InstanceConfig{}, ofRequest(true)},
		"a price limit that is too low": {answerWith(400, "InvalidSpotPriceLimit.LowerThanPublicPrice"), InstanceConfig{}, ofRequest(true)},
		"a quota of CPUs":               {answerWith(403, "QuotaExceed.ElasticQuota"), InstanceConfig{}, driver.IsQuotaExceeded},
		"a quota of disks":              {answerWith(403, "QuotaExceed.DiskCapacity"), InstanceConfig{}, driver.IsQuotaExceeded},
		"no money":                      {answerWith(400, "InsufficientBalance"), InstanceConfig{}, driver.IsQuotaExceeded},
		"too many requests":             {answerWith(400, "Throttling.User"), InstanceConfig{}, driver.IsRateLimited},
		"no permission":                 {answerWith(403, "Forbidden.RAM"), InstanceConfig{}, driver.IsUnauthorized},
		"a role that may not be passed": {answerWith(403, "InvalidUser.PassRoleForbidden"), InstanceConfig{}, driver.IsUnauthorized},
		"a failure":                     {answerWith(500, "InternalError"), InstanceConfig{}, drivertest.HasNoKind},
		"a failure about an image":      {answerWith(500, "InvalidImageId.NotFound"), InstanceConfig{}, drivertest.HasNoKind},
		"an unknown code":               {answerWith(400, "SomethingNew"), InstanceConfig{}, drivertest.HasNoKind},
		"an answer of a proxy":          {&statusError{status: 400}, InstanceConfig{}, drivertest.HasNoKind},
		"a wrong image":                 {answerWith(404, "InvalidImageId.NotFound"), InstanceConfig{}, invalid("spec.image")},
		"a wrong type":                  {answerWith(400, "InvalidInstanceType.ValueNotSupported"), InstanceConfig{}, invalid("spec.instanceType")},
		"a wrong vSwitch":               {answerWith(400, "InvalidVSwitchId.NotFound"), InstanceConfig{}, invalid("spec.vSwitches")},
		"a wrong security group":        {answerWith(404, "InvalidSecurityGroupId.NotFound"), InstanceConfig{}, invalid("spec.securityGroupIDs")},
		"a wrong key pair":              {answerWith(400, "InvalidKeyPairName.NotFound"), InstanceConfig{}, invalid("spec.keyPairName")},
		"a wrong KMS key":               {answerWith(403, "InvalidParameter.KMSKeyId.NotFound"), InstanceConfig{}, invalid("spec.systemDisk")},
		"a wrong size":                  {answerWith(400, "InvalidSystemDiskSize.LessThanImageSize"), InstanceConfig{}, invalid("spec.systemDisk")},
		"another wrong parameter":       {answerWith(400, "InvalidParameter"), InstanceConfig{}, invalid("spec")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toCreateError(test.err, test.config); !test.is(got) {
				t.Errorf("got %T %v", got, got)
			}
		})
	}
}

func TestLocksAreExplained(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"Recycling": "reclaims the spot instance", "financial": "overdue", "security": "security", "anything": ""} {
		d := &Driver{region: "eu-central-1"}
		if got := d.toInstance(locked(reason)).Message; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
}

func TestProviderIDs(t *testing.T) {
	t.Parallel()
	d := &Driver{region: "eu-central-1"}
	for providerID, want := range map[string]string{
		"alicloud://eu-central-1.i-gw8abc": "i-gw8abc", "eu-central-1.i-gw8abc": "i-gw8abc", "alicloud://cn-hangzhou.i-gw8abc": "", "i-gw8abc": "",
		"aws:///eu-central-1a/i-0123": "", "alicloud://eu-central-1.i-a\",\"i-b": "", "": "",
	} {
		if got, ok := d.parseProviderID(providerID); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q and %t, want %q", providerID, got, ok, want)
		}
	}
}

// locked returns an instance that is locked.
func locked(reason string) *ecs.DescribeInstancesResponseBodyInstancesInstance {
	return &ecs.DescribeInstancesResponseBodyInstancesInstance{OperationLocks: &ecs.DescribeInstancesResponseBodyInstancesInstanceOperationLocks{
		LockReason: []*ecs.DescribeInstancesResponseBodyInstancesInstanceOperationLocksLockReason{{LockReason: &reason}},
	}}
}
