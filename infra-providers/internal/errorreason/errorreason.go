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

// Problem is what a failure means.
type Problem struct {
	Reason string
	// Advice completes the message with what to do.
	Advice string
	// Retry is the pause before the next attempt; zero leaves it to exponential back-off.
	Retry time.Duration
	// Spread is how much longer that pause may be, at random.
	Spread time.Duration
	// Terminal failures do not pass by themselves.
	Terminal bool
	// Transient failures may pass by themselves and do not change what was found before.
	Transient bool
	// Unreported failures are those of this process alone and are not reported.
	Unreported bool
}

// Classify is the problem of an error: one line per kind.
func Classify(err error) Problem {
	switch {
	case driver.IsBusy(err):
		return Problem{Reason: infrav1.CloudErrorReason, Retry: time.Second, Transient: true, Unreported: true}
	case driver.IsInvalidConfiguration(err):
		return Problem{Reason: infrav1.InvalidConfigurationReason, Terminal: true}
	case driver.IsUntagged(err):
		return Problem{Reason: infrav1.InstanceTagsMissingReason, Retry: time.Minute}
	case driver.IsAccountMismatch(err):
		return Problem{Reason: infrav1.AccountMismatchReason, Retry: time.Minute}
	case driver.IsNotOwned(err):
		return Problem{Reason: infrav1.InstanceNotOwnedReason, Terminal: true}
	case driver.IsUnauthorized(err):
		return Problem{Reason: infrav1.UnauthorizedReason, Advice: "; check the credentials and what they permit", Retry: time.Minute}
	case driver.IsQuotaExceeded(err):
		return Problem{Reason: infrav1.QuotaExceededReason, Advice: "; raise the quota or scale down", Retry: 3 * time.Minute}
	case driver.IsInsufficientCapacity(err):
		return Problem{Reason: infrav1.InsufficientCapacityReason, Advice: "; wait, or use another instance type or zone", Retry: 2 * time.Minute}
	case driver.IsRateLimited(err):
		return Problem{Reason: infrav1.RateLimitedReason, Retry: max(driver.RetryAfter(err), 5*time.Second), Transient: true}
	case driver.IsUnfinished(err):
		return Problem{Reason: infrav1.InstancePendingReason, Retry: 5 * time.Second, Transient: true}
	default:
		return Problem{Reason: infrav1.CloudErrorReason, Advice: "; retried with back-off", Transient: true}
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
