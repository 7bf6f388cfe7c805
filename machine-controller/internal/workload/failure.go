// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/requesterror"
)

// failure is why an attempt to connect, or a probe, came to nothing.
type failure struct {
	reason  Reason
	message string
	// late says that the API server answered, but its Nodes did not all arrive.
	late bool
	// full says that there was no room for its Nodes.
	full bool
}

// Error is the message, with its reason.
func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.reason, f.message) }

func failed(reason Reason, format string, args ...any) *failure {
	return &failure{reason: reason, message: requesterror.Truncate(fmt.Sprintf(format, args...))}
}

// classify turns what a request to the API server at host ended with into a
// failure. Its message is the same each time the same thing happens, because it
// ends up in conditions.
func classify(host string, err error) *failure {
	switch {
	case errors.Is(err, nodecache.ErrFull):
		full := failed(ReasonNodesTooLarge, "the Nodes of API server %s and of the other workload clusters of the namespace take more memory than --node-memory-per-namespace allows; remove what makes them so many or so large, or raise the flag", host)
		full.full = true
		return full
	case apierrors.IsUnauthorized(err):
		return failed(ReasonUnauthorized, "API server %s refuses the credentials in the kubeconfig; renew them in the Secret", host)
	case apierrors.IsForbidden(err):
		return failed(ReasonForbidden, "API server %s: %s", host, statusOf(err).Status().Message)
	default:
		return failed(ReasonUnreachable, "API server %s: %s", host, requesterror.Describe(err))
	}
}

func statusOf(err error) *apierrors.StatusError {
	status := &apierrors.StatusError{}
	errors.As(err, &status)
	return status
}

// badKubeconfig is the failure of a kubeconfig that cannot be used.
func badKubeconfig(err error) *failure {
	reason := ReasonKubeconfigInvalid
	if bad, is := errors.AsType[*kubeconfig.Error](err); is && bad.Problem != kubeconfig.Invalid {
		reason = map[kubeconfig.Problem]Reason{kubeconfig.Missing: ReasonKubeconfigMissing, kubeconfig.Unreadable: ReasonKubeconfigUnreadable}[bad.Problem]
	}
	return failed(reason, "%v", err)
}
