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
)

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

func newTransport(config *rest.Config, dialTimeout time.Duration) (*transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading TLS settings: %w", err)
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	t := &transport{
		dialer: connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext),
	}
	// The defaults bring HTTP/2 with pings, which find out within 45 seconds
	// that the other end of a silent watch is gone.
	t.pool = utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               proxy,
		DialContext:         t.dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  config.DisableCompression,
	})
	t.RoundTripper, err = rest.HTTPWrappersForConfig(config, oneAnswer{t.pool})
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

// oneAnswer hides Retry-After, which would make client-go sleep and ask again,
// up to ten times, inside of the caller's worker. Callers have a queue for that.
type oneAnswer struct{ next http.RoundTripper }

func (o oneAnswer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if response != nil {
		response.Header.Del("Retry-After")
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
