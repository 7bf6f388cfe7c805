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
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestClassifySaysTheSameAboutTheSameTrouble(t *testing.T) {
	t.Parallel()
	request := func(err error) error { return &url.Error{Op: "Get", URL: "https://a/version?timeout=5s", Err: err} }
	refusedFrom := func(port int) error {
		return request(&net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 6443},
			Err: os.NewSyscallError("read", syscall.ECONNRESET),
		})
	}
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	nodes := schema.GroupResource{Resource: "nodes"}
	tests := map[string]struct {
		err  error
		want failure
	}{
		"401":              {apierrors.NewUnauthorized("x"), failure{reason: ReasonUnauthorized, message: "API server https://a refuses the credentials in the kubeconfig; renew them in the Secret"}},
		"403":              {apierrors.NewForbidden(nodes, "", errors.New("no")), failure{reason: ReasonForbidden, message: `API server https://a: nodes is forbidden: no`}},
		"a wrapped 403":    {fmt.Errorf("listing: %w", apierrors.NewForbidden(nodes, "", errors.New("no"))), failure{reason: ReasonForbidden, message: `API server https://a: nodes is forbidden: no`}},
		"a reset":          {refusedFrom(40000), failure{reason: ReasonUnreachable, message: "API server https://a: read: read: connection reset by peer"}},
		"another reset":    {refusedFrom(40001), failure{reason: ReasonUnreachable, message: "API server https://a: read: read: connection reset by peer"}},
		"a deadline":       {request(context.DeadlineExceeded), failure{reason: ReasonUnreachable, message: "API server https://a: no answer in time"}},
		"a dial timeout":   {request(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), failure{reason: ReasonUnreachable, message: "API server https://a: no answer in time"}},
		"an unknown name":  {request(&net.DNSError{Name: "a", Server: "10.0.0.10:53", IsNotFound: true}), failure{reason: ReasonUnreachable, message: `API server https://a: host name "a" is not known`}},
		"a foreign CA":     {request(x509.UnknownAuthorityError{}), failure{reason: ReasonUnreachable, message: "API server https://a: its certificate is not signed by the kubeconfig's certificate-authority-data"}},
		"an old cert":      {request(x509.CertificateInvalidError{Cert: &x509.Certificate{NotBefore: day(1), NotAfter: day(2)}, Reason: x509.Expired}), failure{reason: ReasonUnreachable, message: "API server https://a: its certificate is only valid from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z"}},
		"something else":   {request(errors.New("x")), failure{reason: ReasonUnreachable, message: "API server https://a: x"}},
		"without a detail": {errors.New("x"), failure{reason: ReasonUnreachable, message: "API server https://a: x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := classify("https://a", test.err); *got != test.want {
				t.Errorf("got %#v", *got)
			}
		})
	}
}
