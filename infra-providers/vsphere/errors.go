// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/vcenter"
)

// toError gives an error its kind: by the types of our own and of vSphere's faults, never by the text.
// Whatever has none is transient.
func toError(err error, config Config) error {
	if err == nil || known(err) {
		return err
	}
	if named, ok := errors.AsType[*vcenter.ReferenceError](err); ok {
		return &driver.InvalidConfigurationError{Field: named.Field, Err: named.Err}
	}
	if shaped, ok := errors.AsType[*clone.ShapeError](err); ok {
		return &driver.InvalidConfigurationError{Field: shaped.Field, Err: shaped.Err}
	}
	if busy, ok := errors.AsType[*vcenter.BusyError](err); ok {
		return &driver.RateLimitedError{RetryAfter: busy.After, Err: err}
	}
	switch {
	case refused(err):
		return &driver.UnauthorizedError{Err: err}
	case full(err):
		// Of the pool, the datastore and the hosts that the request names: not those of another request.
		return &driver.InsufficientCapacityError{InstanceType: instanceType(config), Zone: config.Zone, OfRequest: true, Err: err}
	case is[types.BaseNotEnoughLicenses](err):
		return &driver.QuotaExceededError{Err: err}
	}
	if property, ok := invalid(err); ok {
		return &driver.InvalidConfigurationError{Field: "spec", Err: fmt.Errorf("vSphere refuses %s: %w", cmp.Or(property, "the virtual machine"), err)}
	}
	return err
}

// known reports whether an error has its kind already.
func known(err error) bool {
	return driver.IsNotFound(err) || driver.IsNotOwned(err) || driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err) ||
		driver.IsQuotaExceeded(err) || driver.IsInsufficientCapacity(err) || driver.IsRateLimited(err) || driver.IsAccountMismatch(err)
}

// refused reports whether the credentials were not taken, lack a privilege, or the server is not trusted.
func refused(err error) bool {
	if vcenter.Answered(err, http.StatusUnauthorized) || vcenter.Answered(err, http.StatusForbidden) {
		return true
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	_, expired := errors.AsType[x509.CertificateInvalidError](err)
	return unknown || other || expired ||
		is[types.BaseInvalidLogin](err) || is[types.BaseNoPermission](err) || is[*types.NotAuthenticated](err)
}

// full reports whether there is no room: on hosts, in pools, on datastores, or for failover.
func full(err error) bool {
	return is[types.BaseInsufficientResourcesFault](err) || is[*types.NoDiskSpace](err) || is[*types.InsufficientStorageSpace](err) ||
		is[*types.NoCompatibleHost](err)
}

// invalid reports whether vSphere will never take what was asked for, and which property is at fault.
func invalid(err error) (property string, ok bool) {
	var argument types.BaseInvalidArgument
	if _, ok := fault.As(err, &argument); ok {
		return argument.GetInvalidArgument().InvalidProperty, true
	}
	var config types.BaseInvalidVmConfig
	if _, ok := fault.As(err, &config); ok {
		return config.GetInvalidVmConfig().Property, true
	}
	return "", is[types.BaseNotSupported](err) || is[*types.InvalidName](err) || is[*types.UnsupportedVmxLocation](err)
}

// is reports whether a fault of a type is in an error.
func is[F any](err error) bool {
	if err == nil {
		return false
	}
	var target F
	_, ok := fault.As(err, &target)
	return ok
}
