// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// connecting bounds one attempt to connect, and is the interval of keep-alive probes. It is the value of Go's default.
const connecting = 30 * time.Second

// NewTransport returns a transport with Go's defaults, such as the proxies of the environment, that waits as long as timeout
// for the header of an answer, and keeps an unused connection for a minute.
func NewTransport(timeout time.Duration) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = timeout
	transport.IdleConnTimeout = time.Minute
	return transport
}

// Server is the server of a cloud that credentials name.
type Server struct {
	// OfTenant is true where a Secret of a tenant names the server. Then it gets no connection to the addresses that package
	// egress forbids, and its answers are bounded.
	OfTenant bool
	// TLS nil means that the authorities of the host vouch for it.
	TLS *tls.Config
	// Timeout is how long the header of an answer may take.
	Timeout time.Duration
	// LongAnswers has the seats that long answers of all tenants' servers share.
	LongAnswers *httplimit.Seats
	// Limit bounds each answer of a tenant's server. One of the operator's may have [httplimit.MaxCloudAnswer] bytes.
	Limit func(next http.RoundTripper) http.RoundTripper
}

// Transport returns a new transport to the server.
func (s Server) Transport() http.RoundTripper {
	base := NewTransport(s.Timeout)
	if s.TLS != nil {
		base.TLSClientConfig = s.TLS
	}
	if !s.OfTenant {
		return httplimit.Wrap(base, httplimit.MaxCloudAnswer)
	}
	egress.Restrict(base, net.Dialer{Timeout: connecting, KeepAlive: connecting})
	return s.LongAnswers.WrapShared(s.Limit(base))
}

// LimitJSON returns a Server.Limit for an API whose answers are all JSON.
func LimitJSON(bytes int64, elements int) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return httplimit.WrapDocuments(next, httplimit.JSON, bytes, elements)
	}
}
