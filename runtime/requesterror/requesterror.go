// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package requesterror describes the errors of requests to API servers of workload clusters in words that are the same
// each time the same happens: they stand in conditions, and each change of a condition is a write. Tenants run these API
// servers, so what they answer is truncated.
package requesterror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drover.io/runtime/httplimit"
)

// MaxMessage is how many bytes of a message are kept. The note of an Event, which has more than the message, may have
// 1024 characters.
const MaxMessage = 512

// Truncate shortens a text of an API server that is too long for a condition, at the border of a character.
func Truncate(text string) string { return TruncateTo(text, MaxMessage) }

// TruncateTo keeps the first bytes of a text that has more than the maximum, without a part of a character, and marks with
// an ellipsis that it was shortened.
func TruncateTo(text string, maximum int) string {
	if len(text) <= maximum {
		return text
	}
	return strings.ToValidUTF8(text[:maximum], "") + "…"
}

// IsUnanswered reports whether a request ended without an answer of the API server, or without one that was read.
func IsUnanswered(err error) bool {
	_, request := errors.AsType[*url.Error](err)
	_, busy := errors.AsType[*httplimit.BusyError](err)
	return request || busy
}

// IsUnavailable reports whether a request got no usable answer: none at all, one that was cut off or refused by a limit,
// or a status by which the API server cannot answer now. Conflicts, objects that do not exist and the like are answers.
func IsUnavailable(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, large := errors.AsType[*httplimit.TooLargeError](err)
	_, many := errors.AsType[*httplimit.TooManyElementsError](err)
	_, kind := errors.AsType[*httplimit.ContentTypeError](err)
	return large || many || kind || IsUnanswered(err) || network || isTLS(err) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

func isTLS(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, known := describeTLS(err)
	return verification || known
}

// Describe returns what went wrong without what changes each time: the local port number, the present time, the path and
// timeout of the request.
func Describe(err error) string { return Truncate(describe(err)) }

func describe(err error) string {
	if text, known := describeTLS(err); known {
		return text
	}
	lookup, unresolved := errors.AsType[*net.DNSError](err)
	if unresolved && lookup.IsNotFound {
		return fmt.Sprintf("host name %q is not known", lookup.Name)
	}
	if timeout, is := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || is && timeout.Timeout() {
		return "no answer in time"
	}
	if unresolved { // its text may have the local port of the query
		return fmt.Sprintf("the DNS server cannot resolve host name %q", lookup.Name)
	}
	if operation, is := errors.AsType[*net.OpError](err); is && operation.Err != nil {
		return fmt.Sprintf("%s: %v", operation.Op, operation.Err)
	}
	if request, is := errors.AsType[*url.Error](err); is {
		return request.Err.Error()
	}
	return err.Error()
}

func describeTLS(err error) (text string, known bool) {
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return "its certificate is not signed by the kubeconfig's certificate-authority-data", true
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		return fmt.Sprintf("its certificate is only valid from %s to %s",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339)), true
	}
	if other, is := errors.AsType[x509.HostnameError](err); is {
		return other.Error(), true
	}
	return "", false
}
