// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/workload"
)

const (
	// watchByteRate and watchByteBurst are what the watches of the workload clusters of one namespace may send together, in
	// bytes a second. A request of a kubelet causes four events of some 4 KiB each: the burst is that of thousands of
	// machines that join at the same time.
	watchByteRate, watchByteBurst = 1 << 20, 64 << 20
	// maxEvent is how many bytes an event may have. Each watch holds the one that it reads, and is not among the long
	// answers, because it may last for ever.
	maxEvent = workload.ShortAnswer
)

// watchPace bounds what watches cost: what comes faster is read later. An API server ends a watch that is read too slowly.
type watchPace struct {
	namespaces expiring.Map[string, *rate.Limiter]
}

func newWatchPace() *watchPace {
	// A limiter that was not used for so long is full again, as a new one is.
	return &watchPace{expiring.Map[string, *rate.Limiter]{TTL: 2 * watchByteBurst / watchByteRate * time.Second}}
}

// limiter returns that of a namespace, and keeps it from expiring.
func (p *watchPace) limiter(namespace string) (limiter *rate.Limiter) {
	p.namespaces.Update(namespace, func(current *rate.Limiter, found bool) (*rate.Limiter, bool) {
		if limiter = current; !found {
			limiter = rate.NewLimiter(watchByteRate, watchByteBurst)
		}
		return limiter, true
	})
	return limiter
}

// wrap returns a transport whose watches are read at the pace of the namespace, and fail at an event that is too long.
func (p *watchPace) wrap(next http.RoundTripper, namespace string) http.RoundTripper {
	return &watchTransport{next: next, short: httplimit.WrapJSON(next, maxEvent, maxElements), pace: p, namespace: namespace}
}

type watchTransport struct {
	next, short http.RoundTripper
	pace        *watchPace
	namespace   string
}

// RoundTrip sends the request.
func (t *watchTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		return t.next.RoundTrip(request)
	}
	response, err := t.short.RoundTrip(request)
	if err == nil && response.Body != nil {
		response.Body = &pacedBody{response.Body, request.Context(), t}
	}
	return response, err
}

// pacedBody is the answer to a watch.
type pacedBody struct {
	io.ReadCloser
	ctx       context.Context //nolint:containedctx // that of the request, which ends with the watch
	transport *watchTransport
}

// Read returns what it has read when that may be taken.
func (b *pacedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into[:min(len(into), watchByteBurst)])
	if err != nil {
		return n, err
	}
	return n, b.transport.pace.limiter(b.transport.namespace).WaitN(b.ctx, n)
}
