// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// What the Node watches of the workload clusters of one namespace may send together. 5,000 Nodes that all report a
// changed status every 10 s send 500 events and some 10 MiB a second, those that report every 5 minutes a thirtieth of
// it. The burst includes the Nodes that watches send when they begin.
const (
	nodeEventRate, nodeEventBurst = 2000, 100_000
	nodeByteRate, nodeByteBurst   = 32 << 20, 512 << 20
	// pacedPeriod is how long a watch may be slowed down without interruption before its connection counts as failed.
	pacedPeriod = 30 * time.Second
)

// errTooManyEvents is the error of a Node watch that is slowed down for longer than pacedPeriod.
var errTooManyEvents = errors.New("the Node watches of the namespace send more than is read")

// nodePace bounds what Node watches cost: events of a namespace that come faster than its rate are read later. An API
// server that keeps to its protocol is far below, and ends a watch that is read too slowly.
type nodePace struct {
	namespaces expiring.Map[string, *nodeBudget]
}

// nodeBudget is what the Node watches of one namespace may still send.
type nodeBudget struct{ events, bytes *rate.Limiter }

func newNodePace() *nodePace {
	// A budget that was not used for so long is full again, as a new one is.
	return &nodePace{expiring.Map[string, *nodeBudget]{TTL: time.Minute}}
}

// budget returns that of a namespace, and keeps it from expiring.
func (p *nodePace) budget(namespace string) (budget *nodeBudget) {
	p.namespaces.Update(namespace, func(current *nodeBudget, found bool) (*nodeBudget, bool) {
		if budget = current; !found {
			budget = &nodeBudget{rate.NewLimiter(nodeEventRate, nodeEventBurst), rate.NewLimiter(nodeByteRate, nodeByteBurst)}
		}
		return budget, true
	})
	return budget
}

// nodePacer slows down the Node watch of one connection to the pace of its namespace.
type nodePacer struct {
	pace      *nodePace
	namespace string

	mu sync.Mutex
	// since is from when on each read had to wait; zero where the last one had not.
	since time.Time
}

// wait returns when more may be read, after so many events and bytes.
func (p *nodePacer) wait(ctx context.Context, events, bytes int) error {
	budget := p.pace.budget(p.namespace)
	events, bytes = min(events, nodeEventBurst), min(bytes, nodeByteBurst)
	inTime := budget.events.Tokens() >= float64(events) && budget.bytes.Tokens() >= float64(bytes)
	p.recordWait(!inTime)
	if err := budget.events.WaitN(ctx, events); err != nil {
		return err
	}
	return budget.bytes.WaitN(ctx, bytes)
}

// recordWait records since when the watch has waited for tokens without a break.
func (p *nodePacer) recordWait(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !now:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = time.Now()
	}
}

// err is errTooManyEvents where the watch was slowed down for too long.
func (p *nodePacer) err() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || time.Since(p.since) < pacedPeriod {
		return nil
	}
	return errTooManyEvents
}

// wrap returns a transport whose watches are read at the pace of the namespace.
func (p *nodePacer) wrap(next http.RoundTripper) http.RoundTripper { return &pacedTransport{next, p} }

type pacedTransport struct {
	next  http.RoundTripper
	pacer *nodePacer
}

// RoundTrip sends the request.
func (t *pacedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && request.URL.Query().Has("watch") {
		response.Body = &pacedBody{ReadCloser: response.Body, ctx: request.Context(), pacer: t.pacer}
	}
	return response, err
}

// WrappedRoundTripper gives client-go the transport below.
func (t *pacedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// pacedBody is the answer to a watch: events in JSON, one after another.
type pacedBody struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // that of the request, which ends with the watch
	pacer *nodePacer

	scanner httplimit.Scanner
}

// Read returns what it has read when the events and bytes in it may be taken.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil || n == 0 {
		return n, err
	}
	return n, b.pacer.wait(b.ctx, b.count(p[:n]), n)
}

// count returns how many events end in the data.
func (b *pacedBody) count(data []byte) (events int) {
	for _, c := range data {
		if b.scanner.Structural(c) && (c == '}' || c == ']') && b.scanner.Depth <= 0 {
			b.scanner.Depth = 0
			events++
		}
	}
	return events
}
