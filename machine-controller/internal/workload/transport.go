// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// maxAnswer is how many bytes one answer of a workload cluster may have: several times what a page
// of 500 Nodes, or of Pods, has.
const maxAnswer = 64 << 20

// maxElements is how many objects, arrays and values in them an answer may have, or an event of a watch. A usual Pod or
// Node has some hundreds, and lists are read in pages.
const maxElements = 100_000

var errClosed = errors.New("the connection to the workload cluster was closed")

// transport carries all requests of one Connection over TCP connections of its
// own, so that closing it leaves nothing behind. client-go's shared transports
// stay for as long as their cache does, one per kubeconfig ever seen.
type transport struct {
	http.RoundTripper
	pool   *http.Transport
	dialer *connrotation.Dialer
	closed atomic.Bool
}

// newTransport returns a transport that waits for a connection, and for the first byte of any answer, so long.
func newTransport(config *rest.Config, dialTimeout, answerTimeout time.Duration) (*transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading TLS settings: %w", err)
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	t := &transport{
		dialer: connrotation.NewDialer(egress.Dial(net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second})),
	}
	// The defaults bring HTTP/2 with pings, which find out within 45 seconds
	// that the other end of a silent watch is gone.
	t.pool = utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               egress.Proxy(proxy),
		DialContext:         t.dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		// API servers begin the answer to a watch at once; where nothing comes, nothing is watched.
		ResponseHeaderTimeout: answerTimeout,
		DisableCompression:    config.DisableCompression,
	})
	t.RoundTripper, err = rest.HTTPWrappersForConfig(config, httplimit.WrapJSON(oneAnswer{t.pool}, maxAnswer, maxElements))
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	return t, nil
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if t.closed.Load() {
		_ = conn.Close() // It was never used.
		return nil, errClosed
	}
	return conn, nil
}

// close ends all requests and refuses new ones.
func (t *transport) close() {
	t.closed.Store(true)
	t.dialer.CloseAll()
	t.pool.CloseIdleConnections()
}

// oneAnswer hides what would make client-go ask again by itself. For Retry-After it would sleep, up to ten times, inside
// of the caller's worker; callers have a queue for that.
type oneAnswer struct{ next http.RoundTripper }

func (o oneAnswer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if response != nil {
		response.Header.Del("Retry-After")
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && request.URL.Query().Has("watch") {
		// client-go takes a watch that was never answered for one that ended without an event, again and again.
		err = opaque{err}
	}
	return response, err
}

// limiter bounds how long a request waits for its turn.
type limiter struct {
	flowcontrol.RateLimiter
	patience time.Duration
}

func (l limiter) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	return l.RateLimiter.Wait(ctx)
}
