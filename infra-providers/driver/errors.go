// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"time"
)

// NotFoundError means that the cloud answered and there is no such instance.
type NotFoundError struct{ What string }

func (e *NotFoundError) Error() string { return e.What + " does not exist" }

// IsNotFound reports whether err is a NotFoundError.
func IsNotFound(err error) bool { return is[*NotFoundError](err) }

// NotOwnedError means that the instance found does not have the tags of the requested one: nothing may be done to
// it. It carries those of something else, or none.
type NotOwnedError struct {
	ProviderID string
	// Found is the identity that its tags name, as far as they name one.
	Found Identity
	// Requested is the identity that it was compared with.
	Requested Identity
}

// Error names the owner only to its own namespace: the text becomes part of conditions, and tenants may share an account.
func (e *NotOwnedError) Error() string {
	if e.Untagged() {
		return fmt.Sprintf("instance %q lacks ownership tags", e.ProviderID)
	}
	if e.Found.Owner.Namespace != e.Requested.Owner.Namespace {
		return fmt.Sprintf("instance %q belongs to a machine of another namespace", e.ProviderID)
	}
	return fmt.Sprintf("instance %q belongs to machine %q of cluster %q", e.ProviderID, e.Found.Name, e.Found.Owner.Name)
}

// Untagged reports whether the instance has no ownership tags, or not all of them, so that its owner is not
// known. It may be the requested one.
func (e *NotOwnedError) Untagged() bool { return !e.Found.Tagged() }

// IsNotOwned reports whether err is a NotOwnedError.
func IsNotOwned(err error) bool { return is[*NotOwnedError](err) }

// IsUntagged reports whether err is a NotOwnedError about an instance without ownership tags.
func IsUntagged(err error) bool {
	found, ok := errors.AsType[*NotOwnedError](err)
	return ok && found.Untagged()
}

// NotRunningError means that there is an instance and that it does not run, so that it cannot be restarted.
type NotRunningError struct {
	// State is what the instance is instead: Pending, Stopping or Stopped.
	State State
}

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("the instance is %s and not %s", e.State, Running)
}

// IsNotRunning reports whether err is a NotRunningError.
func IsNotRunning(err error) bool { return is[*NotRunningError](err) }

// InvalidConfigurationError means that trying again cannot help until the object, or what it names in the cloud, is changed.
type InvalidConfigurationError struct {
	// Field is the path of the field at fault, such as spec.instanceType.
	Field string
	// Final is true where Drover itself refuses the object, so that no change in the cloud can help.
	Final bool
	Err   error
}

func (e *InvalidConfigurationError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns the cause.
func (e *InvalidConfigurationError) Unwrap() error { return e.Err }

// InvalidField returns an InvalidConfigurationError about a field, with a text as of [fmt.Errorf].
func InvalidField(field, format string, values ...any) error {
	return &InvalidConfigurationError{Field: field, Err: fmt.Errorf(format, values...)}
}

// NeverValid is InvalidField for what Drover itself refuses.
func NeverValid(field, format string, values ...any) error {
	return &InvalidConfigurationError{Field: field, Final: true, Err: fmt.Errorf(format, values...)}
}

// IsInvalidConfiguration reports whether err is an InvalidConfigurationError.
func IsInvalidConfiguration(err error) bool { return is[*InvalidConfigurationError](err) }

// IsNeverValid reports whether err is an InvalidConfigurationError about what Drover itself refuses.
func IsNeverValid(err error) bool {
	invalid, ok := errors.AsType[*InvalidConfigurationError](err)
	return ok && invalid.Final
}

// UnauthorizedError means that the cloud refused the credentials or they lack a permission.
type UnauthorizedError struct{ Err error }

func (e *UnauthorizedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnauthorizedError) Unwrap() error { return e.Err }

// IsUnauthorized reports whether err is an UnauthorizedError.
func IsUnauthorized(err error) bool { return is[*UnauthorizedError](err) }

// BusyError means that an account holds as many workers as it may, so that the call is repeated in a moment. It is no
// error of the cloud, and drivers do not return it.
type BusyError struct{}

func (e *BusyError) Error() string { return "the account holds its share of the workers" }

// IsBusy reports whether err is a BusyError.
func IsBusy(err error) bool { return is[*BusyError](err) }

// AccountMismatchError means that the credentials lead to another account than the one that a machine is pinned to,
// so that nothing read there is evidence about its instance. A driver returns it if a new login leads to another account
// than the one before, for every call from then on, or if another server answers at its address, for every conclusion that
// there is no instance; it is then replaced by a new connection.
type AccountMismatchError struct {
	// Pinned is the account of the machine, Connected the one that its credentials lead to.
	Pinned, Connected string
	// Source names where the credentials come from.
	Source string
}

func (e *AccountMismatchError) Error() string {
	return fmt.Sprintf("the machine is in account %q, and %s leads to account %q", e.Pinned, e.Source, e.Connected)
}

// IsAccountMismatch reports whether err is an AccountMismatchError.
func IsAccountMismatch(err error) bool { return is[*AccountMismatchError](err) }

// QuotaExceededError means that the account may not have more of something.
type QuotaExceededError struct{ Err error }

func (e *QuotaExceededError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *QuotaExceededError) Unwrap() error { return e.Err }

// IsQuotaExceeded reports whether err is a QuotaExceededError.
func IsQuotaExceeded(err error) bool { return is[*QuotaExceededError](err) }

// InsufficientCapacityError means that the cloud has no capacity for the instance type in the zone.
type InsufficientCapacityError struct {
	InstanceType string
	Zone         string
	// OfRequest is true where something else in the request lacks capacity, such as its subnet, its price or its placement
	// group: another request for the same type in the same zone may succeed.
	OfRequest bool
	Err       error
}

func (e *InsufficientCapacityError) Error() string {
	return fmt.Sprintf("no capacity for %q in %q: %v", e.InstanceType, e.Zone, e.Err)
}

// Unwrap returns the cause.
func (e *InsufficientCapacityError) Unwrap() error { return e.Err }

// IsInsufficientCapacity reports whether err is an InsufficientCapacityError.
func IsInsufficientCapacity(err error) bool { return is[*InsufficientCapacityError](err) }

// RateLimitedError means that the account sent too many requests.
type RateLimitedError struct {
	// RetryAfter is the cloud's own hint; zero when it gave none.
	RetryAfter time.Duration
	Err        error
}

func (e *RateLimitedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RateLimitedError) Unwrap() error { return e.Err }

// IsRateLimited reports whether err is a RateLimitedError.
func IsRateLimited(err error) bool { return is[*RateLimitedError](err) }

// UnfinishedError means that nothing failed: something beside the instance is still being made or removed. Asking
// again in a few seconds goes on from there.
type UnfinishedError struct{ Err error }

func (e *UnfinishedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// IsUnfinished reports whether err is an UnfinishedError.
func IsUnfinished(err error) bool { return is[*UnfinishedError](err) }

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
