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

// Faults is a transport that lets a call go wrong on its way, to a fake cloud or to a real one.
type Faults struct {
	// Transport carries what goes right; nil is the usual one.
	Transport http.RoundTripper

	mu    sync.Mutex
	armed []*strike
}

// Hold keeps the next call that fits on its way: the caller is told that the connection broke, and the call
// arrives when the function that is returned is called.
func (f *Faults) Hold(fits func(*http.Request) bool) (arrive func() error) {
	held := &strike{fits: fits, holds: true}
	f.arm(held)
	return func() error {
		response, err := f.transport().RoundTrip(held.held)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}

// strike is something that goes wrong once.
type strike struct {
	fits func(*http.Request) bool
	lost bool
	// holds keeps the call in held.
	holds bool
	held  *http.Request
	// answer is given instead of asking; nil asks.
	answer func(*http.Request) *http.Response
}

// Changes fits every call that changes something, but a login.
func Changes(request *http.Request) bool {
	return request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/auth/tokens")
}

// Creates fits the call that creates something of a kind, such as servers.
func Creates(kind string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/"+kind)
	}
}

// Lose makes the next call that fits take effect and its answer get lost.
func (f *Faults) Lose(fits func(*http.Request) bool) { f.arm(&strike{fits: fits, lost: true}) }

// Fail answers the next call that fits with a status and a body, and does not let it through.
func (f *Faults) Fail(fits func(*http.Request) bool, status int, body string) {
	f.arm(&strike{fits: fits, answer: func(request *http.Request) *http.Response {
		return &http.Response{
			Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   io.NopCloser(bytes.NewBufferString(body)), ContentLength: int64(len(body)), Request: request,
		}
	}})
}

func (f *Faults) arm(s *strike) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, s)
}

// next takes the first strike that fits.
func (f *Faults) next(request *http.Request) *strike {
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
	// The call is over once its answer was read to the end.
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}
