// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Trouble is what is wrong between us and a workload cluster, in words that do not change from one attempt to
// the next: no port numbers of ours, no times.
type Trouble struct {
	Forbidden bool // the cluster answered, and refused
	Message   string
}

// Explain turns the error of a call to a workload cluster into Trouble. It returns nil for errors of other
// kinds, such as conflicts.
func (c *Connection) Explain(err error) *Trouble {
	reach := func(what string) *Trouble {
		return &Trouble{Message: fmt.Sprintf("cannot reach the API server of the workload cluster at %s: %s", c.Server.URL, what)}
	}
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		expired   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		network   net.Error
		operation *net.OpError
	)
	switch {
	case apierrors.IsUnauthorized(err):
		return &Trouble{Forbidden: true, Message: "the workload cluster does not accept the credentials of the kubeconfig: renew the kubeconfig Secret"}
	case apierrors.IsForbidden(err):
		return &Trouble{Forbidden: true, Message: err.Error() + ": apply config/workload of the bootstrap controller there as its administrator"}
	case errors.As(err, &dns):
		return reach(fmt.Sprintf("the name %q cannot be resolved", dns.Name))
	case errors.As(err, &authority):
		return reach("its certificate is not signed by the CA of the kubeconfig")
	case errors.As(err, &host):
		return reach("its certificate is not valid for this address: set tls-server-name in the kubeconfig")
	case errors.As(err, &expired), errors.As(err, &verify):
		return reach("its certificate is not valid")
	case errors.Is(err, syscall.ECONNREFUSED):
		return reach("the connection was refused")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return reach("no answer in time")
	case errors.As(err, &operation), errors.Is(err, syscall.ECONNRESET):
		return reach("the connection failed")
	case apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return reach("it cannot answer at the moment")
	}
	return nil
}
