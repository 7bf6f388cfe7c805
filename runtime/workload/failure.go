// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drover.io/runtime/requesterror"
)

// Kind is what kind of Failure the error of a request shows.
type Kind string

const (
	// Unauthorized means that the API server refuses the credentials in the kubeconfig.
	Unauthorized Kind = "Unauthorized"
	// Forbidden means that the kubeconfig's user may not make the request.
	Forbidden Kind = "Forbidden"
	// Unavailable means that there was no answer that could be used.
	Unavailable Kind = "Unavailable"
	// Other means that the API server answered, such as with a conflict, or that the error is not one of a request.
	Other Kind = "Other"
)

// Failure is why a request to the API server of a workload cluster did not succeed.
type Failure struct {
	Kind Kind
	// Message is the same each time the same happens, because it is written into conditions. It names the API server.
	Message string
}

// Classify returns the Failure of a request to the API server at host that ended with an error.
func Classify(host string, err error) Failure {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return failure(Unauthorized, "API server %s refuses the credentials in the kubeconfig; renew them in the Secret", host)
	case answered && apierrors.IsForbidden(err):
		return failure(Forbidden, "API server %s: %s", host, status.Status().Message)
	case requesterror.IsUnavailable(err):
		return failure(Unavailable, "API server %s: %s", host, requesterror.Describe(err))
	}
	return failure(Other, "API server %s: %s", host, requesterror.Describe(err))
}

func failure(kind Kind, format string, args ...any) Failure {
	return Failure{kind, requesterror.Truncate(fmt.Sprintf(format, args...))}
}
