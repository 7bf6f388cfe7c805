// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/workload"
)

const (
	// requestByteRate and requestByteBurst are how many bytes of certificate requests the workload clusters of one namespace
	// may send together, in a second and at once. A kubelet's request causes four events of some 4 KiB each: the burst is
	// that of thousands of machines that join at the same time.
	requestByteRate, requestByteBurst = 2 << 20, 128 << 20
	// maxEvent is how many bytes an event of a watch may have. Each watch holds the one that it reads, and is not among the
	// long answers, because it may last for ever.
	maxEvent = workload.ShortAnswer
	// maxList is how many bytes a list of requests may have, and maxRequest how many a single one. A page of kubelets'
	// requests has a third of it.
	maxList, maxRequest = 1 << 20, 64 << 10
	// maxListElements is how many elements both may have: less than every answer may have, beyond which the API server
	// counts as one that does not answer.
	maxListElements = maxElements / 2
)

// ErrTooManyRequests ends an answer for which the namespace has no bytes left: one that is only read later would take
// memory meanwhile.
var ErrTooManyRequests = errors.New("the workload clusters of the namespace send more certificate requests than are read")

// requestPace bounds what it costs to list and watch certificate requests: whoever lists or watches waits before the next
// attempt.
type requestPace struct {
	clock      clock.PassiveClock
	namespaces expiring.Map[string, *rate.Limiter]
}

func newRequestPace(clk clock.PassiveClock) *requestPace {
	// A limiter that was not used for so long is full again, as a new one is.
	return &requestPace{clk, expiring.Map[string, *rate.Limiter]{Clock: clk, TTL: 2 * requestByteBurst / requestByteRate * time.Second}}
}

// allow reports whether a namespace may send so many bytes now.
func (p *requestPace) allow(namespace string, bytes int) bool {
	var limiter *rate.Limiter
	p.namespaces.Update(namespace, func(current *rate.Limiter, found bool) (*rate.Limiter, bool) {
		if limiter = current; !found {
			limiter = rate.NewLimiter(requestByteRate, requestByteBurst)
		}
		return limiter, true
	})
	return limiter.AllowN(p.clock.Now(), bytes)
}

// wrap returns a transport for a client of certificate requests.
func (p *requestPace) wrap(next http.RoundTripper, namespace string) http.RoundTripper {
	return &pacedTransport{
		next: next, pace: p, namespace: namespace,
		single:  httplimit.WrapJSON(next, maxRequest, maxListElements),
		lists:   httplimit.WrapJSON(next, maxList, maxListElements),
		watches: httplimit.WrapJSON(next, maxEvent, maxElements),
	}
}

type pacedTransport struct {
	next, single, lists, watches http.RoundTripper

	pace      *requestPace
	namespace string
}

// RoundTrip sends the request.
func (t *pacedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return t.next.RoundTrip(request)
	}
	next, query := t.single, request.URL.Query()
	switch {
	case query.Get("watch") != "":
		next = t.watches
	case query.Has("limit"):
		next = t.lists
	}
	response, err := next.RoundTrip(request)
	if err == nil && response.Body != nil {
		response.Body = &pacedBody{response.Body, t}
	}
	return response, err
}

// pacedBody is a list, or the events of a watch.
type pacedBody struct {
	io.ReadCloser
	transport *pacedTransport
}

// Read fails with ErrTooManyRequests.
func (b *pacedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if n > 0 && !b.transport.pace.allow(b.transport.namespace, n) {
		return 0, ErrTooManyRequests
	}
	return n, err
}
