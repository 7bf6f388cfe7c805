// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// failure is why an attempt to connect, or a probe, came to nothing.
type failure struct {
	reason  Reason
	message string
	// late is true where the API server answered, but its Nodes did not all arrive.
	late bool
	// full is true where its Nodes exceeded the memory limit.
	full bool
}

// Error is the message, with its reason.
func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.reason, f.message) }

func failed(reason Reason, format string, args ...any) *failure {
	return &failure{reason: reason, message: requesterror.Truncate(fmt.Sprintf(format, args...))}
}

// classify returns the failure of a request to the API server at host that ended with an error.
func classify(host string, err error) *failure {
	if errors.Is(err, nodecache.ErrFull) {
		full := failed(ReasonNodesTooLarge, "the Nodes of API server %s and of the other workload clusters of the namespace take more memory than --node-memory-per-namespace allows; remove what makes them so many or so large, or raise the flag", host)
		full.full = true
		return full
	}
	if errors.Is(err, errTooManyEvents) {
		return failed(ReasonTooManyNodeEvents, "the watches of the Nodes of API server %s and of the other workload clusters of the namespace send more than %d events or %d MiB a second; find out what changes their Nodes so often", host, nodeEventRate, nodeByteRate>>20)
	}
	f := workload.Classify(host, err)
	reason := ReasonUnreachable
	switch f.Kind {
	case workload.Unauthorized:
		reason = ReasonUnauthorized
	case workload.Forbidden:
		return &failure{reason: ReasonForbidden, message: f.Message + grantPermissions}
	}
	return &failure{reason: reason, message: f.Message}
}

// grantPermissions is the end of messages about requests that the kubeconfig's user may not make.
const grantPermissions = "; the kubeconfig's user must be in the group drover:managers, and config/workload of machine-controller applied there by its administrator"

// badKubeconfig is the failure of a kubeconfig that cannot be used.
func badKubeconfig(err error) *failure {
	reason := ReasonKubeconfigInvalid
	if bad, is := errors.AsType[*kubeconfig.Error](err); is && bad.Problem != kubeconfig.Invalid {
		reason = map[kubeconfig.Problem]Reason{kubeconfig.Missing: ReasonKubeconfigMissing, kubeconfig.Unreadable: ReasonKubeconfigUnreadable}[bad.Problem]
	}
	return failed(reason, "%v", err)
}
