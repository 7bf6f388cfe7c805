// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Faults is a transport that injects faults into requests, to a fake cloud or to a real one.
type Faults struct {
	// Transport carries the requests; nil means the default.
	Transport http.RoundTripper

	mu    sync.Mutex
	armed []*pendingFault
}

// Hold holds the next request that matches: the caller gets a connection error, and the returned function carries the
// request out.
func (f *Faults) Hold(fits func(*http.Request) bool) (release func() error) {
	held := &pendingFault{fits: fits, holds: true}
	f.arm(held)
	return func() error {
		response, err := f.transport().RoundTrip(held.held)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}

// pendingFault is a fault of one request.
type pendingFault struct {
	fits func(*http.Request) bool
	lost bool
	// holds keeps the call in held.
	holds bool
	held  *http.Request
	// answer replaces the request; nil means that it is sent.
	answer func(*http.Request) *http.Response
}

// Changes matches every request that changes something, except a login.
func Changes(request *http.Request) bool {
	return request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/auth/tokens")
}

// Creates matches the request that creates a resource of a kind, such as servers.
func Creates(kind string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/"+kind)
	}
}

// Lose loses the answer of the next request that matches, after it took effect.
func (f *Faults) Lose(fits func(*http.Request) bool) { f.arm(&pendingFault{fits: fits, lost: true}) }

// Fail answers the next request that matches with a status and a body, without sending it.
func (f *Faults) Fail(fits func(*http.Request) bool, status int, body string) {
	f.arm(&pendingFault{fits: fits, answer: func(request *http.Request) *http.Response {
		return &http.Response{
			Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   io.NopCloser(bytes.NewBufferString(body)), ContentLength: int64(len(body)), Request: request,
		}
	}})
}

func (f *Faults) arm(s *pendingFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, s)
}

// next removes and returns the first fault that matches.
func (f *Faults) next(request *http.Request) *pendingFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, s := range f.armed {
		if s.fits(request) {
			f.armed = append(f.armed[:at], f.armed[at+1:]...)
			return s
		}
	}
	return nil
}

func (f *Faults) transport() http.RoundTripper {
	if f.Transport == nil {
		return http.DefaultTransport
	}
	return f.Transport
}

// RoundTrip implements http.RoundTripper.
func (f *Faults) RoundTrip(request *http.Request) (*http.Response, error) {
	s := f.next(request)
	switch {
	case s == nil:
		return f.transport().RoundTrip(request)
	case s.holds:
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		s.held = request.Clone(context.Background())
		s.held.Body = io.NopCloser(bytes.NewReader(body))
		return nil, io.ErrUnexpectedEOF
	case s.answer != nil:
		return s.answer(request), nil
	}
	response, err := f.transport().RoundTrip(request)
	if err != nil {
		return nil, err
	}
	// The request is complete once its answer was read to the end.
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}
