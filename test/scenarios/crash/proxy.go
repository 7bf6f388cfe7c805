// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"drover.io/test/controlplane"
)

// userAgent is the prefix of the User-Agent header of the manager whose writes count.
const userAgent = "drover-machine-controller"

// writeProxy is a reverse proxy of an API server for every request: it terminates TLS with the server's
// own certificate, and forwards requests as the authenticated user.
type writeProxy struct {
	// URL is the address of the proxy.
	URL string

	server *http.Server
	// token passes requests on with the proof in their header, certificate for the user that
	// the client's certificate names.
	token, certificate http.Handler
	killer             *killer
	// unready makes the proxy report that the API server is not ready, and notReadyAnswers counts how often the manager
	// got this answer; all other requests are forwarded.
	unready         atomic.Bool
	notReadyAnswers atomic.Int64
}

func newWriteProxy(cluster *controlplane.ControlPlane, killer *killer) (*writeProxy, error) {
	serving, err := cluster.ServingCertificate()
	if err != nil {
		return nil, err
	}
	admin := cluster.AdminConfig()
	target, err := url.Parse(admin.Host)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &writeProxy{URL: "https://" + listener.Addr().String(), killer: killer}
	anonymous := rest.AnonymousClientConfig(admin)
	if g.token, err = newReverseProxy(target, anonymous); err != nil {
		return nil, err
	}
	if g.certificate, err = newReverseProxy(target, admin); err != nil {
		return nil, err
	}
	g.server = &http.Server{
		Handler:   g,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, processKey{}, killer.process())
		},
	}
	go func() { _ = g.server.ServeTLS(listener, "", "") }()
	return g, nil
}

// processKey is the context key of the manager's process in which a connection was made.
type processKey struct{}

func newReverseProxy(target *url.URL, config *rest.Config) (http.Handler, error) {
	round, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     round,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}, nil
}

// ServeHTTP forwards the request, and counts writes of the manager.
func (g *writeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" && g.unready.Load() {
		http.Error(w, "etcd failed", http.StatusServiceUnavailable)
		if strings.HasPrefix(r.UserAgent(), userAgent) {
			g.notReadyAnswers.Add(1)
		}
		return
	}
	next := g.token
	if len(r.TLS.PeerCertificates) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		r.Header.Set(transport.ImpersonateUserHeader, subject.CommonName)
		for _, group := range append(subject.Organization, "system:authenticated") {
			r.Header.Add(transport.ImpersonateGroupHeader, group)
		}
		next = g.certificate
	}
	if !isManagerWrite(r) {
		next.ServeHTTP(w, r)
		return
	}
	// The answer is sent only once it is clear that the manager is not killed.
	answer := &bufferedResponse{header: http.Header{}}
	g.killer.count(r, func() bool {
		next.ServeHTTP(answer, r)
		return answer.status < http.StatusBadRequest
	})
	if r.Context().Err() == nil {
		answer.writeTo(w)
	}
}

// isManagerWrite reports whether a request is a write of the manager. Events do not count: they are
// sent on the side, and nothing rests on them.
func isManagerWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return strings.HasPrefix(r.UserAgent(), userAgent) && !strings.Contains(r.URL.Path, "/events")
}

func (g *writeProxy) close() error { return g.server.Close() }

// bufferedResponse keeps an answer back.
type bufferedResponse struct {
	header http.Header
	status int
	body   []byte
}

// Header is the header of the answer.
func (h *bufferedResponse) Header() http.Header { return h.header }

// WriteHeader keeps the status.
func (h *bufferedResponse) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write keeps a piece of the body.
func (h *bufferedResponse) Write(piece []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	h.body = append(h.body, piece...)
	return len(piece), nil
}

func (h *bufferedResponse) writeTo(w http.ResponseWriter) {
	if h.status == 0 {
		return // it was never passed on
	}
	for key, values := range h.header {
		w.Header()[key] = values
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body)
}
