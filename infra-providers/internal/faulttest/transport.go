// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// FaultyTransport is a transport between an SDK and a simulated cloud with faults at random, so that a call of the driver fails in its
// middle too.
type FaultyTransport struct {
	Rand *Rand
	// Next carries what arrives.
	Next http.RoundTripper
	// Changes reports which requests change something, so that a lost answer has an effect; nil is every request but GET.
	Changes func(*http.Request) bool
	// Refuse is the cloud's answer to a request that is Broken or Throttled: status and body.
	Refuse func(Fault) (status int, body string)
}

// RoundTrip implements http.RoundTripper.
func (w *FaultyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	changes := request.Method != http.MethodGet
	if w.Changes != nil {
		changes = w.Changes(request)
	}
	switch fault := w.Rand.Fault(changes); fault {
	case None:
		return w.Next.RoundTrip(request)
	case Lost:
		response, err := w.Next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		// The call is over once its answer was read to the end.
		_, err = io.Copy(io.Discard, response.Body)
		return nil, errors.Join(errLost, err, response.Body.Close())
	default:
		if request.Body != nil {
			_ = request.Body.Close()
		}
		status, body := w.Refuse(fault)
		return &http.Response{
			Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}
