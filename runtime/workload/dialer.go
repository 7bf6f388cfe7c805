// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload opens the way from a manager to the API servers of workload clusters, whose kubeconfigs tenants write:
// a [Dialer] makes a [Transport] per kubeconfig, which connects to permitted addresses only, follows no redirect, and
// bounds what an answer takes in memory; [Classify] turns the errors of requests into the few kinds that conditions have.
//
// Package kubeconfig reads and checks the kubeconfigs. When to connect, what to cache, and what to do while an API server
// does not answer is for each manager to decide.
package workload

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

const (
	// MaxAnswer is how many bytes an answer may have: several times what a page of 500 Nodes, or of Pods, has.
	MaxAnswer = 64 << 20
	// LongAnswers is how many answers of more than ShortAnswer bytes are read at the same time, from all API servers
	// together. A page of 500 Pods is such an answer. One namespace gets half of them.
	LongAnswers = 6
	// ShortAnswer is how many bytes an answer may have that is read beside any number of others.
	ShortAnswer = 256 << 10
)

// Options are those of a Dialer.
type Options struct {
	// UserAgent is what API servers log. Default: client-go's.
	UserAgent string
	// DialTimeout bounds a TCP connection and a TLS handshake. Default: 5s.
	DialTimeout time.Duration
	// AnswerTimeout bounds the wait for the first byte of any answer, that to a watch included: API servers begin it at
	// once. Default: 1m.
	AnswerTimeout time.Duration
	// MaxElements is how many objects, arrays and values in them an answer may have, or an event of a watch.
	// Default: 100,000. A usual Pod or Node has some hundreds, and lists are read in pages.
	MaxElements int
}

// Dialer makes Transports. All workload clusters of a manager share one.
type Dialer struct {
	options Options
	// long are the seats of answers that are long.
	long *httplimit.Seats
}

// NewDialer returns a Dialer.
func NewDialer(options Options) *Dialer {
	options.DialTimeout = cmp.Or(options.DialTimeout, 5*time.Second)
	options.AnswerTimeout = cmp.Or(options.AnswerTimeout, time.Minute)
	options.MaxElements = cmp.Or(options.MaxElements, 100_000)
	return &Dialer{options: options, long: httplimit.NewSeats(LongAnswers, ShortAnswer)}
}

// Open prepares the way to the API server of a client configuration, which kubeconfig.Rules have accepted, without
// sending anything. The namespace is that of the Cluster. An error means that the credentials or the TLS settings cannot
// be used.
func (d *Dialer) Open(config *rest.Config, namespace string) (*Transport, error) {
	config = rest.CopyConfig(config)
	// The API server of a tenant would write into the log.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.UserAgent = cmp.Or(d.options.UserAgent, config.UserAgent)
	// JSON is what can be bounded before it is decoded.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading TLS settings: %w", err)
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	server, host, err := anonymous(config)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the API server: %w", err)
	}
	t := &Transport{
		config: config, server: server, namespace: namespace, long: d.long,
		dialer: connrotation.NewDialer(egress.Dial(net.Dialer{Timeout: d.options.DialTimeout, KeepAlive: 30 * time.Second})),
	}
	// The defaults include HTTP/2 with pings, which detect within 45 seconds that the other end of a watch without events is gone.
	t.pool = utilnet.SetTransportDefaults(&http.Transport{
		Proxy:                  egress.Proxy(proxy),
		DialContext:            t.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    d.options.DialTimeout,
		ResponseHeaderTimeout:  d.options.AnswerTimeout,
		MaxResponseHeaderBytes: egress.MaxHeaders,
		DisableCompression:     config.DisableCompression,
	})
	wrapped, err := rest.HTTPWrappersForConfig(config, httplimit.WrapNested(httplimit.WrapJSON(decodableTimes{cheapQuantities{noRetry{t.pool}}}, MaxAnswer, d.options.MaxElements)))
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	t.RoundTripper = toServer{wrapped, host}
	return t, nil
}
