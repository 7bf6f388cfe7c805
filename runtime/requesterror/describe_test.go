// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package requesterror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/runtime/httplimit"
)

func request(err error) error {
	return &url.Error{Op: "Get", URL: "https://a/api?timeout=10s", Err: err}
}

// TestDescribe leaves out what changes each time: ports of this process, times, paths, timeouts.
func TestDescribe(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.FixedZone("x", 3600)) }
	certificate := &x509.Certificate{NotBefore: day(1), NotAfter: day(2), DNSNames: []string{"b"}}
	refused := &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: 40000}, Addr: &net.TCPAddr{Port: 6443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a refused connection":       {request(refused), "dial: connect: connection refused"},
		"one without its request":    {refused, "dial: connect: connection refused"},
		"a wrapped one":              {fmt.Errorf("reading: %w", request(refused)), "dial: connect: connection refused"},
		"a deadline":                 {request(context.DeadlineExceeded), "no answer in time"},
		"a deadline of the network":  {request(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), "no answer in time"},
		"an unknown host":            {request(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "a", Server: "10.0.0.10:53", IsNotFound: true}}), `host name "a" is not known`},
		"a resolver that times out":  {request(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "a", IsTimeout: true}}), "no answer in time"},
		"a resolver that fails":      {request(&net.DNSError{Err: "server misbehaving", Name: "a", Server: "10.0.0.10:53"}), `the DNS server cannot resolve host name "a"`},
		"a foreign CA":               {request(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "its certificate is not signed by the kubeconfig's certificate-authority-data"},
		"an expired certificate":     {request(x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired}), "its certificate is only valid from 2025-12-31T23:00:00Z to 2026-01-01T23:00:00Z"},
		"a certificate of no server": {request(x509.CertificateInvalidError{Cert: certificate, Reason: x509.IncompatibleUsage}), "x509: certificate specifies an incompatible key usage"},
		"a certificate of another":   {request(x509.HostnameError{Certificate: certificate, Host: "a"}), "x509: certificate is valid for b, not a"},
		"something else":             {request(errors.New("EOF")), "EOF"},
		"a status":                   {apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("old")), `Operation cannot be fulfilled on nodes "n": old`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Describe(test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestAResolverThatIsDownIsDescribedTheSameEachTime: each query has a port of its own, and the error of the resolver names it.
func TestAResolverThatIsDownIsDescribedTheSameEachTime(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.LocalAddr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", closed)
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: resolver}).DialContext}}
	for range 3 {
		response, err := client.Get("https://api.example.com.:6443/readyz")
		if err == nil {
			_ = response.Body.Close()
			t.Fatal("the name was resolved")
		}
		if got, want := Describe(err), `the DNS server cannot resolve host name "api.example.com."`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", MaxMessage)
	for name, test := range map[string]struct{ text, want string }{
		"keeps what fits":                          {fits, fits},
		"keeps an empty text":                      {"", ""},
		"cuts what does not":                       {fits + "y", fits + "…"},
		"cuts at the border of a character":        {fits[1:] + "éé", fits[1:] + "…"},
		"keeps a character that just fits":         {fits[2:] + "éy", fits[2:] + "é…"},
		"keeps what has as many bytes as may stay": {fits[2:] + "é", fits[2:] + "é"},
	} {
		if got := Truncate(test.text); got != test.want {
			t.Errorf("%s: %d bytes that end with %q", name, len(got), got[max(0, len(got)-8):])
		}
	}
}

func TestIsUnavailableForEachKindOfError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a server that shuts down":         {apierrors.NewTimeoutError("later", 1), true},
		"a server that gives up":           {apierrors.NewServerTimeout(schema.GroupResource{}, "get", 1), true},
		"a server's own error":             {apierrors.NewInternalError(errors.New("etcd")), true},
		"no place for a long answer":       {fmt.Errorf("reading: %w", &httplimit.BusyError{}), true},
		"a certificate that is not valid":  {&tls.CertificateVerificationError{Err: errors.New("x")}, true},
		"a certificate of another host":    {x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}, true},
		"a deadline of a file":             {os.ErrDeadlineExceeded, true},
		"a refused connection by itself":   {syscall.ECONNREFUSED, true},
		"an error of the network":          {&net.OpError{Op: "read", Err: syscall.EPIPE}, true},
		"a request that was given up":      {request(context.Canceled), true},
		"credentials that are not valid":   {apierrors.NewUnauthorized("x"), false},
		"a request that is not valid":      {apierrors.NewBadRequest("x"), false},
		"an object that exists":            {apierrors.NewAlreadyExists(schema.GroupResource{}, "x"), false},
		"a version that is too old":        {apierrors.NewResourceExpired("x"), false},
		"a caller that gives up by itself": {context.Canceled, false},
	} {
		if got := IsUnavailable(test.err); got != test.want {
			t.Errorf("%s: unavailable is %t, want %t", name, got, test.want)
		}
	}
}
