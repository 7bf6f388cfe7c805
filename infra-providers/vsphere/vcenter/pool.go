// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// poolTTL is how long the pool keeps a session that is not used. A driver that still has it may continue to use it.
const poolTTL = 15 * time.Minute

// Pool keeps one session per account, so that a vCenter's few sessions are not used up. Rotated credentials
// are another account; the session of the old ones ends by itself when it is not used any more, and is removed.
type Pool struct {
	// Transport wraps the HTTP transport of sessions; nil wraps nothing.
	Transport func(http.RoundTripper) http.RoundTripper
	// Now is the clock; nil is the real one.
	Now func() time.Time

	mu       sync.Mutex
	sessions map[Account]*Session
	long     *httplimit.Seats
	// opened is how many sessions there were.
	opened int
	// places are what names stand for, of any session: one bound for all, because a namespace may have many sessions.
	places expiring.Map[placeKey, Placement]
	// folders are where virtual machines were seen, by any session.
	folders expiring.Map[location, types.ManagedObjectReference]
	// refusals are of any session.
	refusals *expiring.Map[credentials, refusal]
}

// Open returns the session of an account. Nothing is sent before the session is used.
func (p *Pool) Open(account Account) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	clock := p.Now
	if clock == nil {
		clock = time.Now
	}
	now := clock()
	maps.DeleteFunc(p.sessions, func(_ Account, known *Session) bool { return known.unused(now) > poolTTL })
	if known := p.sessions[account]; known != nil && known.open() {
		known.use(now)
		return known
	}
	if p.long == nil {
		p.long = httplimit.NewCloudSeats()
		p.places.TTL, p.places.Max = current, maxPlaces
		p.refusals = &expiring.Map[credentials, refusal]{TTL: poolTTL, Max: maxRefusals}
	}
	p.opened++
	opened := &Session{number: p.opened, places: &p.places, account: account, transport: p.Transport, long: p.long, turn: make(chan struct{}, 1), used: now, folders: &p.folders, now: clock, refusals: p.refusals}
	opened.readable.TTL, opened.readable.Max = visibleFor, maxReadable
	if p.sessions == nil {
		p.sessions = map[Account]*Session{}
	}
	p.sessions[account] = opened
	return opened
}

// Close logs every session out.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, known := range p.sessions {
		errs = append(errs, known.Close(ctx))
	}
	p.sessions = nil
	return errors.Join(errs...)
}

// BusyError means that the server, or a proxy before it, requested a pause.
type BusyError struct {
	Status int
	// After is the server's hint; zero when it gave none.
	After time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
}

// busy turns answers that request a pause into BusyErrors, which the SDK has no type for.
type busy struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b busy) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	pause, found := driver.ParseRetryAfter(res.Header, time.Now())
	if res.StatusCode != http.StatusTooManyRequests && (res.StatusCode != http.StatusServiceUnavailable || !found) {
		res.Body = drainingBody{res.Body}
		return res, nil
	}
	return nil, errors.Join(&BusyError{Status: res.StatusCode, After: pause}, res.Body.Close())
}

// remainder is the most, in bytes, that is read of an answer after its end of XML.
const remainder = 16 << 10

// drainingBody is a body that is read to its end before it is closed. The SDK stops reading where the XML ends, which
// may be before the body does, and then each call would cost a new connection with a TLS handshake.
type drainingBody struct{ io.ReadCloser }

// Close implements io.Closer.
func (d drainingBody) Close() error {
	_, _ = io.CopyN(io.Discard, d.ReadCloser, remainder) // what cannot be read only costs a connection
	return d.ReadCloser.Close()
}
