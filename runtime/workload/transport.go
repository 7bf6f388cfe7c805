// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// ErrClosed is the error of requests of a Transport that was closed.
var ErrClosed = errors.New("the connection to the workload cluster was closed")

// Transport carries all requests to one API server over TCP connections of its own, so that closing it leaves nothing
// behind. client-go's shared transports stay for as long as their cache does, one per kubeconfig ever seen. Each of its
// answers is bounded; answers of any number may be read at the same time, unless they are read by way of
// [Transport.WithSeats].
type Transport struct {
	http.RoundTripper
	config    *rest.Config
	server    string // the URL for clients
	namespace string
	long      *httplimit.Seats
	pool      *http.Transport
	dialer    *connrotation.Dialer
	closed    atomic.Bool
}

// Config returns a copy of the configuration for clients that use an HTTPClient of the Transport. Rate limits are the
// caller's to set. Its host is the same for all API servers, and stands for that of this one.
func (t *Transport) Config() *rest.Config {
	config := rest.CopyConfig(t.config)
	config.Host = t.server
	return config
}

// Host returns the URL of the API server.
func (t *Transport) Host() string { return t.config.Host }

// WithSeats returns a RoundTripper by which only so many long answers are read at the same time, from all API servers
// together. It is for everything but probes and watches, which have limits of their own.
func (t *Transport) WithSeats() http.RoundTripper { return t.long.Wrap(t, t.namespace) }

// HTTPClient returns a client that follows no redirect. Requests go through roundTripper, which is the Transport or wraps
// it; a timeout of zero is none.
func HTTPClient(roundTripper http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: roundTripper, Timeout: timeout, CheckRedirect: egress.NoRedirects}
}

func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if t.closed.Load() {
		_ = conn.Close() // It was never used.
		return nil, ErrClosed
	}
	return conn, nil
}

// Close ends all requests and refuses new ones.
func (t *Transport) Close() {
	t.closed.Store(true)
	t.dialer.CloseAll()
	t.pool.CloseIdleConnections()
}

// CloseIdle closes the TCP connections that no request uses. Requests go on, and new ones are accepted.
func (t *Transport) CloseIdle() { t.pool.CloseIdleConnections() }

// RetryAfterHeader is where a response of a Transport has the value of Retry-After, if the API server sent one.
const RetryAfterHeader = "Drover-Retry-After"

// noRetry hides what makes client-go repeat a request by itself. For Retry-After it would sleep, up to ten times, inside
// of the caller's worker; callers have a queue for that.
type noRetry struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noRetry) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if response != nil {
		response.Header.Set(RetryAfterHeader, response.Header.Get("Retry-After"))
		response.Header.Del("Retry-After")
	}
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() && request.URL.Query().Has("watch") {
		// client-go takes a watch that was never answered for one that ended without an event, again and again.
		err = Opaque(err)
	}
	return response, err
}

// Opaque returns an error with the same message that hides what kind of error it was.
func Opaque(err error) error { return opaque{err} }

type opaque struct{ err error }

// Error returns the message of the hidden error.
func (o opaque) Error() string { return o.err.Error() }
