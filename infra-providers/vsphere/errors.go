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
func toError(err error, config InstanceConfig) error {
	if err == nil || hasKind(err) {
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
	case isUnauthorized(err):
		return &driver.UnauthorizedError{Err: err}
	case isOutOfResources(err):
		// Of the pool, the datastore and the hosts that the request names: not those of another request.
		return &driver.InsufficientCapacityError{InstanceType: instanceType(config), Zone: config.Zone, OfRequest: true, Err: err}
	case hasFault[types.BaseNotEnoughLicenses](err):
		return &driver.QuotaExceededError{Err: err}
	}
	if property, ok := invalidProperty(err); ok {
		return &driver.InvalidConfigurationError{Field: "spec", Err: fmt.Errorf("vSphere refuses %s: %w", cmp.Or(property, "the virtual machine"), err)}
	}
	return err
}

// hasKind reports whether an error has its kind already.
func hasKind(err error) bool {
	return driver.IsNotFound(err) || driver.IsNotOwned(err) || driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err) ||
		driver.IsQuotaExceeded(err) || driver.IsInsufficientCapacity(err) || driver.IsRateLimited(err) || driver.IsAccountMismatch(err)
}

// isUnauthorized reports whether the credentials were refused, lack a privilege, or the server is not trusted.
func isUnauthorized(err error) bool {
	if vcenter.Answered(err, http.StatusUnauthorized) || vcenter.Answered(err, http.StatusForbidden) {
		return true
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	_, expired := errors.AsType[x509.CertificateInvalidError](err)
	return unknown || other || expired ||
		hasFault[types.BaseInvalidLogin](err) || hasFault[types.BaseNoPermission](err) || hasFault[*types.NotAuthenticated](err)
}

// isOutOfResources reports whether there is no capacity: on hosts, in pools, on datastores, or for failover.
func isOutOfResources(err error) bool {
	return hasFault[types.BaseInsufficientResourcesFault](err) || hasFault[*types.NoDiskSpace](err) || hasFault[*types.InsufficientStorageSpace](err) ||
		hasFault[*types.NoCompatibleHost](err)
}

// invalidProperty reports whether vSphere will never accept what was requested, and which property is at fault.
func invalidProperty(err error) (property string, ok bool) {
	var argument types.BaseInvalidArgument
	if _, ok := fault.As(err, &argument); ok {
		return argument.GetInvalidArgument().InvalidProperty, true
	}
	var config types.BaseInvalidVmConfig
	if _, ok := fault.As(err, &config); ok {
		return config.GetInvalidVmConfig().Property, true
	}
	return "", hasFault[types.BaseNotSupported](err) || hasFault[*types.InvalidName](err) || hasFault[*types.UnsupportedVmxLocation](err)
}

// isNotFound reports whether a managed object does not exist.
func isNotFound(err error) bool { return hasFault[*types.ManagedObjectNotFound](err) }

// hasFault reports whether a fault of a type is in an error.
func hasFault[F any](err error) bool {
	if err == nil {
		return false
	}
	var target F
	_, ok := fault.As(err, &target)
	return ok
}
