// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// failure is why an attempt to connect, or a probe, came to nothing.
type failure struct {
	reason  Reason
	message string
	// late says that the API server answered, but its Nodes did not all arrive.
	late bool
}

// Error is the message, with its reason.
func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.reason, f.message) }

func failed(reason Reason, format string, args ...any) *failure {
	return &failure{reason: reason, message: fmt.Sprintf(format, args...)}
}

// classify turns what a request to the API server at host ended with into a
// failure. Its message is the same each time the same thing happens, because it
// ends up in conditions.
func classify(host string, err error) *failure {
	switch {
	case apierrors.IsUnauthorized(err):
		return failed(ReasonUnauthorized, "API server %s refuses the credentials in the kubeconfig; renew them in the Secret", host)
	case apierrors.IsForbidden(err):
		return failed(ReasonForbidden, "API server %s: %s", host, statusOf(err).Status().Message)
	default:
		return failed(ReasonUnreachable, "API server %s: %s", host, describe(err))
	}
}

// IsUnanswered reports whether a request through a Connection ended without an answer of the
// API server. Whether it is down is for the connection to find out, which then wakes whoever
// waits; until then it is no error of the one who asked.
func IsUnanswered(err error) bool {
	var request *url.Error
	return errors.As(err, &request)
}

func statusOf(err error) *apierrors.StatusError {
	status := &apierrors.StatusError{}
	errors.As(err, &status)
	return status
}

// describe says what went wrong without what changes each time: our own port
// number, the present time, the path and timeout of the request.
func describe(err error) string {
	if text, known := describeTLS(err); known {
		return text
	}
	var lookup *net.DNSError
	var timeout interface{ Timeout() bool }
	var operation *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return fmt.Sprintf("host name %q is not known", lookup.Name)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &operation) && operation.Err != nil:
		return fmt.Sprintf("%s: %v", operation.Op, operation.Err)
	case errors.As(err, &request):
		return request.Err.Error()
	default:
		return err.Error()
	}
}

func describeTLS(err error) (text string, known bool) {
	var unknownAuthority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var otherName x509.HostnameError
	switch {
	case errors.As(err, &unknownAuthority):
		return "its certificate is not signed by the kubeconfig's certificate-authority-data", true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is only valid from %s to %s",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339)), true
	case errors.As(err, &otherName):
		return otherName.Error(), true
	default:
		return "", false
	}
}
