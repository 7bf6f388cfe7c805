// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"

	"drover.io/runtime/egress"
)

var errForbidden = errors.New("link-local, multicast, unspecified and metadata addresses are not connected to")

// describe returns why there is no answer, in words of its own: the errors of the HTTP client quote what the server
// returned, such as where it redirects to, and have addresses and ports that differ each time.
func describe(err error) error {
	for _, own := range []error{errInsecure, errRedirects} {
		if errors.Is(err, own) {
			return own
		}
	}
	if _, is := errors.AsType[*egress.ForbiddenError](err); is {
		return errForbidden
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return describeCertificate(err)
	}
	if lookup, is := errors.AsType[*net.DNSError](err); is && lookup.IsNotFound {
		return errors.New("the host name of the server, or of one that it redirects to, is not known")
	}
	if timeout, is := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || is && timeout.Timeout() {
		return errors.New("there is no answer in time")
	}
	if number, is := errors.AsType[syscall.Errno](err); is {
		return number
	}
	return errors.New("the server does not answer as one of HTTPS does")
}

func describeCertificate(err error) error {
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return errors.New("the certificate of the server is of an authority that is not in spec.defaults.trustedCAs")
	}
	if _, is := errors.AsType[x509.HostnameError](err); is {
		return errors.New("the certificate of the server is not for its host name")
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		return errors.New("the certificate of the server has expired or is not valid yet")
	}
	return errors.New("the certificate of the server is not valid")
}
