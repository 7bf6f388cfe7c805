// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"strings"

	"drover.io/runtime/requesterror"
)

// MaxBrief is how many bytes a text of an error has that is kept or logged: as many as the message of a condition.
const MaxBrief = 4096 - len("…")

// Brief returns an error of the same kind whose texts have MaxBrief bytes at most, and that refers to nothing else. It is
// for errors that are kept, because the server that a Secret names chooses how long they are and what they contain.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*NotFoundError](err); ok {
		return &NotFoundError{What: brief(known.What)}
	}
	if known, ok := errors.AsType[*NotOwnedError](err); ok {
		return &NotOwnedError{ProviderID: brief(known.ProviderID), Found: known.Found.brief(), Requested: known.Requested}
	}
	if known, ok := errors.AsType[*NotRunningError](err); ok {
		return known
	}
	if known, ok := errors.AsType[*BusyError](err); ok {
		return known
	}
	if known, ok := errors.AsType[*AccountMismatchError](err); ok {
		return &AccountMismatchError{Pinned: brief(known.Pinned), Connected: brief(known.Connected), Source: known.Source}
	}
	if known, ok := errors.AsType[*InsufficientCapacityError](err); ok {
		return &InsufficientCapacityError{InstanceType: known.InstanceType, Zone: known.Zone, OfRequest: known.OfRequest, Err: briefText(known.Err)}
	}
	if known, ok := errors.AsType[*InvalidConfigurationError](err); ok {
		return &InvalidConfigurationError{Field: known.Field, Final: known.Final, Err: briefText(known.Err)}
	}
	if known, ok := errors.AsType[*RateLimitedError](err); ok {
		return &RateLimitedError{RetryAfter: known.RetryAfter, Err: briefText(err)}
	}
	switch text := briefText(err); {
	case IsUnauthorized(err):
		return &UnauthorizedError{Err: text}
	case IsQuotaExceeded(err):
		return &QuotaExceededError{Err: text}
	case IsUnfinished(err):
		return &UnfinishedError{Err: text}
	default:
		return text
	}
}

func briefText(err error) error { return errors.New(brief(err.Error())) }

// brief returns a copy, because a part of a long text would keep all of it in memory.
func brief(text string) string {
	return strings.Clone(requesterror.TruncateTo(text, MaxBrief))
}
