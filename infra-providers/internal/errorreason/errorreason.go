// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package errorreason converts an error of a driver to what all conditions share: a reason, an advice, and when to try
// again. It is independent of the kind of object; advice for one kind is added by its reconciler.
package errorreason

import (
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/requesterror"
)

// Reasons of conditions, one for each kind of error.
const (
	// InvalidConfiguration: the spec cannot work.
	InvalidConfiguration = infrav1.InvalidConfigurationReason
	// InstanceNotOwned: the instance belongs to another owner.
	InstanceNotOwned = infrav1.InstanceNotOwnedReason
	// InstanceTagsMissing: the instance lacks ownership tags, so that its owner is not known.
	InstanceTagsMissing = infrav1.InstanceTagsMissingReason
	// AccountMismatch: the credentials lead to another account.
	AccountMismatch = infrav1.AccountMismatchReason
	// Unauthorized: the cloud refused the credentials.
	Unauthorized = infrav1.UnauthorizedReason
	// QuotaExceeded: the account's quota is used up.
	QuotaExceeded = infrav1.QuotaExceededReason
	// InsufficientCapacity: the cloud has no capacity for the instance type in the zone.
	InsufficientCapacity = infrav1.InsufficientCapacityReason
	// RateLimited: the account calls the cloud too often.
	RateLimited = infrav1.RateLimitedReason
	// InstancePending: the cloud is still at work, and nothing failed.
	InstancePending = infrav1.InstancePendingReason
	// CloudError: the cloud failed in a way that may pass.
	CloudError = infrav1.CloudErrorReason
)

// Problem is what a failure means.
type Problem struct {
	Reason string
	// Advice completes the message with what to do.
	Advice string
	// Retry is the pause before the next attempt; zero leaves it to exponential back-off.
	Retry time.Duration
	// Terminal failures do not pass by themselves.
	Terminal bool
	// Passing failures may pass by themselves and do not change what was found before.
	Passing bool
	// Unreported failures are those of this process alone and are not reported.
	Unreported bool
}

// Classify is the problem of an error: one line per kind.
func Classify(err error) Problem {
	switch {
	case driver.IsBusy(err):
		return Problem{Reason: CloudError, Retry: time.Second, Passing: true, Unreported: true}
	case driver.IsInvalidConfiguration(err):
		return Problem{Reason: InvalidConfiguration, Terminal: true}
	case driver.IsUntagged(err):
		return Problem{Reason: InstanceTagsMissing, Retry: time.Minute}
	case driver.IsAccountMismatch(err):
		return Problem{Reason: AccountMismatch, Retry: time.Minute}
	case driver.IsNotOwned(err):
		return Problem{Reason: InstanceNotOwned, Terminal: true}
	case driver.IsUnauthorized(err):
		return Problem{Reason: Unauthorized, Advice: "; check the credentials and what they permit", Retry: time.Minute}
	case driver.IsQuotaExceeded(err):
		return Problem{Reason: QuotaExceeded, Advice: "; raise the quota or scale down", Retry: 3 * time.Minute}
	case driver.IsInsufficientCapacity(err):
		return Problem{Reason: InsufficientCapacity, Advice: "; wait, or use another instance type or zone", Retry: 2 * time.Minute}
	case driver.IsRateLimited(err):
		return Problem{Reason: RateLimited, Retry: max(driver.RetryAfter(err), 5*time.Second), Passing: true}
	case driver.IsUnfinished(err):
		return Problem{Reason: InstancePending, Retry: 5 * time.Second, Passing: true}
	default:
		return Problem{Reason: CloudError, Advice: "; retried with back-off", Passing: true}
	}
}

// Truncate shortens a message to the length of a condition's.
func Truncate(message string) string {
	return requesterror.TruncateTo(message, driver.MaxBrief)
}

// maxNote is how many bytes the note of an event may have. The API server refuses an event with a longer one.
const maxNote = 1024

// TruncateNote shortens a message to the length of an event's note.
func TruncateNote(message string) string {
	return requesterror.TruncateTo(message, maxNote-len("…"))
}
