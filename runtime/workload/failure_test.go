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
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/runtime/httplimit"
	"drover.io/runtime/requesterror"
)

func TestClassifyReturnsTheSameForTheSameError(t *testing.T) {
	t.Parallel()
	request := func(err error) error { return &url.Error{Op: "Get", URL: "https://a/version?timeout=5s", Err: err} }
	resetFrom := func(port int) error {
		return request(&net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 6443},
			Err: os.NewSyscallError("read", syscall.ECONNRESET),
		})
	}
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	nodes := schema.GroupResource{Resource: "nodes"}
	tests := map[string]struct {
		err  error
		want Failure
	}{
		"401":               {apierrors.NewUnauthorized("x"), Failure{Unauthorized, "API server https://a refuses the credentials in the kubeconfig; renew them in the Secret"}},
		"a wrapped 401":     {fmt.Errorf("listing: %w", apierrors.NewUnauthorized("x")), Failure{Unauthorized, "API server https://a refuses the credentials in the kubeconfig; renew them in the Secret"}},
		"403":               {apierrors.NewForbidden(nodes, "", errors.New("no")), Failure{Forbidden, `API server https://a: nodes is forbidden: no`}},
		"a wrapped 403":     {fmt.Errorf("listing: %w", apierrors.NewForbidden(nodes, "", errors.New("no"))), Failure{Forbidden, `API server https://a: nodes is forbidden: no`}},
		"a reset":           {resetFrom(40000), Failure{Unavailable, "API server https://a: read: read: connection reset by peer"}},
		"another reset":     {resetFrom(40001), Failure{Unavailable, "API server https://a: read: read: connection reset by peer"}},
		"a deadline":        {request(context.DeadlineExceeded), Failure{Unavailable, "API server https://a: no answer in time"}},
		"a dial timeout":    {request(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), Failure{Unavailable, "API server https://a: no answer in time"}},
		"an unknown name":   {request(&net.DNSError{Name: "a", Server: "10.0.0.10:53", IsNotFound: true}), Failure{Unavailable, `API server https://a: host name "a" is not known`}},
		"a foreign CA":      {request(x509.UnknownAuthorityError{}), Failure{Unavailable, "API server https://a: its certificate is not signed by the kubeconfig's certificate-authority-data"}},
		"an old cert":       {request(x509.CertificateInvalidError{Cert: &x509.Certificate{NotBefore: day(1), NotAfter: day(2)}, Reason: x509.Expired}), Failure{Unavailable, "API server https://a: its certificate is only valid from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z"}},
		"a large answer":    {request(&httplimit.TooLargeError{Limit: 64 << 20}), Failure{Unavailable, "API server https://a: the server's answer is larger than 64 MiB"}},
		"503":               {apierrors.NewServiceUnavailable("later"), Failure{Unavailable, "API server https://a: later"}},
		"another request":   {request(errors.New("x")), Failure{Unavailable, "API server https://a: x"}},
		"404":               {apierrors.NewNotFound(nodes, "n"), Failure{Other, `API server https://a: nodes "n" not found`}},
		"409":               {apierrors.NewConflict(nodes, "n", errors.New("old")), Failure{Other, `API server https://a: Operation cannot be fulfilled on nodes "n": old`}},
		"no request's":      {errors.New("x"), Failure{Other, "API server https://a: x"}},
		"a long message":    {errors.New(strings.Repeat("x", 600)), Failure{Other, "API server https://a: " + strings.Repeat("x", requesterror.MaxMessage-len("API server https://a: ")) + "…"}},
		"a long refusal":    {apierrors.NewForbidden(nodes, "", errors.New(strings.Repeat("x", 600))), Failure{Forbidden, "API server https://a: nodes is forbidden: " + strings.Repeat("x", requesterror.MaxMessage-len("API server https://a: nodes is forbidden: ")) + "…"}},
		"an opaque request": {Opaque(request(context.DeadlineExceeded)), Failure{Other, `API server https://a: Get "https://a/version?timeout=5s": context deadline exceeded`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify("https://a", test.err); got != test.want {
				t.Errorf("got %#v", got)
			}
		})
	}
}
