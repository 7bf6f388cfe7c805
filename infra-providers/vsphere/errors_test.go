// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/vcenter"
)

func passing(err error) bool { return err != nil && !hasKind(err) }

// TestToError gives each fault its kind, whether a call or a task failed with it.
func TestToError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault types.BaseMethodFault
		is    func(error) bool
	}{
		"a wrong password":           {&types.InvalidLogin{}, driver.IsUnauthorized},
		"an expired password":        {&types.PasswordExpired{}, driver.IsUnauthorized},
		"a lacking privilege":        {&types.NoPermission{}, driver.IsUnauthorized},
		"an ended session":           {&types.NotAuthenticated{}, driver.IsUnauthorized},
		"no resources":               {&types.InsufficientResourcesFault{}, driver.IsInsufficientCapacity},
		"no memory":                  {&types.InsufficientMemoryResourcesFault{}, driver.IsInsufficientCapacity},
		"no room for failover":       {&types.InsufficientFailoverResourcesFault{}, driver.IsInsufficientCapacity},
		"a full datastore":           {&types.NoDiskSpace{}, driver.IsInsufficientCapacity},
		"no compatible host":         {&types.NoCompatibleHost{}, driver.IsInsufficientCapacity},
		"no licence":                 {&types.NotEnoughLicenses{}, driver.IsQuotaExceeded},
		"a bad argument":             {&types.InvalidArgument{InvalidProperty: "spec.pool"}, driver.IsInvalidConfiguration},
		"a bad device":               {&types.InvalidDeviceSpec{}, driver.IsInvalidConfiguration},
		"a bad name":                 {&types.InvalidName{}, driver.IsInvalidConfiguration},
		"something unsupported":      {&types.NotSupported{}, driver.IsInvalidConfiguration},
		"an object that is gone":     {&types.ManagedObjectNotFound{}, passing},
		"a busy virtual machine":     {&types.TaskInProgress{}, passing},
		"a state that does not suit": {&types.InvalidState{}, passing},
		"a cancelled task":           {&types.RequestCanceled{}, passing},
		"anything else":              {&types.SystemError{}, passing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{
				soap.WrapVimFault(test.fault),
				fmt.Errorf("cloning: %w", soap.WrapVimFault(test.fault)),
				task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: test.fault}},
			} {
				if got := toError(err, InstanceConfig{}); !test.is(got) {
					t.Errorf("%T: got %v", err, got)
				}
			}
		})
	}
}

func TestToErrorOfOwnErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"a name that stands for nothing":        {&vcenter.ReferenceError{Field: "spec.folder", Err: cause}, driver.IsInvalidConfiguration},
		"a shape the template cannot take":      {&clone.ShapeError{Field: "spec.diskGiB", Err: cause}, driver.IsInvalidConfiguration},
		"a certificate of an unknown authority": {fmt.Errorf("x: %w", x509.UnknownAuthorityError{}), driver.IsUnauthorized},
		"what has its kind":                     {&driver.NotFoundError{What: "x"}, driver.IsNotFound},
		"anything else":                         {cause, passing},
		"a busy server": {fmt.Errorf("x: %w", &vcenter.BusyError{Status: 429, After: 7 * time.Second}), func(err error) bool {
			return driver.IsRateLimited(err) && driver.RetryAfter(err) == 7*time.Second
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := toError(test.err, InstanceConfig{}); !test.is(got) {
				t.Errorf("got %v", got)
			}
		})
	}
	if toError(nil, InstanceConfig{}) != nil {
		t.Error("no error became one")
	}
}

// TestInstanceID: the providerID is known before there is a virtual machine, and outlives the UID.
func TestInstanceID(t *testing.T) {
	t.Parallel()
	const uid = "0A0B0C0D-0000-4000-8000-000000000001"
	for name, test := range map[string]struct {
		id   driver.Identity
		want string
	}{
		"takes the UID in lower case":        {driver.Identity{UID: uid}, "0a0b0c0d-0000-4000-8000-000000000001"},
		"takes the provider ID first":        {driver.Identity{UID: uid, ProviderID: "vsphere://11111111-2222-4333-8444-55555555555F"}, "11111111-2222-4333-8444-55555555555f"},
		"derives one from what is no UUID":   {driver.Identity{UID: "u"}, "c94a0c09-a1a6-59ef-8559-29f40db19f74"},
		"ignores another cloud's providerID": {driver.Identity{UID: uid, ProviderID: "aws:///x"}, "0a0b0c0d-0000-4000-8000-000000000001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := instanceID(test.id); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
