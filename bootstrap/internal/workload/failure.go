// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drover.io/runtime/requesterror"
)

// Failure is why a workload cluster did not do what it was asked, in words that do not change from one attempt to the
// next.
type Failure struct {
	// Forbidden means that the API server answered, and refused.
	Forbidden bool
	Message   string
}

// Classify returns the Failure that the error of a call to the workload cluster shows, or nil for errors of other kinds,
// such as conflicts.
func (c *Connection) Classify(err error) *Failure {
	switch {
	case apierrors.IsUnauthorized(err):
		return &Failure{Forbidden: true, Message: "API server " + c.Server.URL + " refuses the credentials in the kubeconfig; renew them in the Secret"}
	case apierrors.IsForbidden(err):
		return &Failure{Forbidden: true, Message: requesterror.Truncate(err.Error()) + ": apply config/workload of the bootstrap controller there as its administrator"}
	case requesterror.IsUnavailable(err):
		return &Failure{Message: "API server " + c.Server.URL + ": " + requesterror.Describe(err)}
	}
	return nil
}
