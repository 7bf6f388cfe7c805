// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// MaxRetryAfter bounds the pause that a cloud requests. Some answers request a day, such as that of a maintenance page in
// front of a service; one call is made earlier.
const MaxRetryAfter = 10 * time.Minute

// RetryAfter returns the hint of a RateLimitedError up to MaxRetryAfter, or zero.
func RetryAfter(err error) time.Duration {
	if limited, ok := errors.AsType[*RateLimitedError](err); ok {
		return min(limited.RetryAfter, MaxRetryAfter)
	}
	return 0
}

// ParseRetryAfter returns the pause that the header Retry-After of an answer requests, from zero to MaxRetryAfter. The
// header has a number of seconds or a time (RFC 9110, section 10.2.3). It reports false for a header that is missing or
// has neither.
func ParseRetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, MaxRetryAfter), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), MaxRetryAfter), true
	}
	return 0, false
}

// WithoutInvalidConfiguration returns err, or an error of the same text and of no kind in place of an
// InvalidConfigurationError. It is for calls that do not depend on the configuration: what cannot be read or deleted now
// may be later.
func WithoutInvalidConfiguration(err error) error {
	if IsInvalidConfiguration(err) {
		return errors.New(err.Error())
	}
	return err
}
