// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// StableNetworkError removes from an error of the network what differs from call to call, such as ports, addresses, URLs and
// the text around the end of a context, so that the message of a condition stays the same. Any other error is returned as it is. The
// action is a gerund phrase such as "calling EC2".
func StableNetworkError(err error, action string) error {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return fmt.Errorf("%s: %w", action, ended)
		}
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %s: %w", action, failed.Op, failed.Err)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", action, failed.Err)
	}
	return err
}

// TransportError converts an error of a call that the API of a cloud did not answer. An error that has a kind already, such as
// that of a source of tokens, is returned without what wraps it; any other one as by StableNetworkError.
func TransportError(err error, action string) error {
	for _, find := range []func(error) error{find[*UnauthorizedError], find[*RateLimitedError], find[*InvalidConfigurationError], find[*UnfinishedError]} {
		if known := find(err); known != nil {
			return known
		}
	}
	return StableNetworkError(err, action)
}

// find returns the error of a kind in an error, or nil.
func find[E error](err error) error {
	if found, ok := errors.AsType[E](err); ok {
		return found
	}
	return nil
}
