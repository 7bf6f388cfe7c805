// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"drover.io/runtime/fairshare"
)

// BusyError is the error of an answer that is too long to be read beside the long ones that are being read. The same
// request may succeed in a moment.
type BusyError struct{}

func (*BusyError) Error() string { return "too many long answers are being read at the same time" }

// Seats bounds how many long answers are read at the same time, and so how much memory all servers together can
// make a manager use: a limit for each answer alone does not bound that.
type Seats struct {
	short int64
	seats *fairshare.Seats[string]
}

// NewSeats returns so many seats. An answer needs one when it is longer than short bytes.
func NewSeats(seats int, short int64) *Seats {
	return &Seats{short, fairshare.New[string](seats)}
}

// The limits of the APIs of clouds.
const (
	// MaxCloudAnswer is how many bytes one answer may have.
	MaxCloudAnswer = 64 << 20
	// longCloudAnswers is how many answers of more than shortCloudAnswer bytes are read at the same time.
	longCloudAnswers, shortCloudAnswer = 8, 16 << 10
)

// NewCloudSeats returns the seats of the long answers of all servers that Secrets name. One namespace alone gets half of
// them.
func NewCloudSeats() *Seats { return NewSeats(longCloudAnswers, shortCloudAnswer) }

// Wrap returns a RoundTripper whose long answers take seats of a holder, such as a namespace, until they are closed.
// Holders share the seats as in package fairshare. Reading beyond the short part fails
// with a [BusyError] where there is no seat. Watches take none: they are read event by event.
func (p *Seats) Wrap(next http.RoundTripper, holder string) http.RoundTripper {
	return &seated{next: next, seats: p, holder: func(*http.Request) string { return holder }, watches: true}
}

// seatTimeout is how long a long answer waits for a seat where it waits, and seatPoll the pause between two attempts.
const (
	seatTimeout = 5 * time.Second
	seatPoll    = 10 * time.Millisecond
)

// WrapShared is Wrap for a transport that several holders share: each request has the holder of its context, by
// [WithHolder]. A long answer waits some seconds for a seat, because one client may make several calls at the same time
// and an answer is usually read at once. No request is a watch, because the server may choose the query, by the links in its lists.
func (p *Seats) WrapShared(next http.RoundTripper) http.RoundTripper {
	return &seated{next: next, seats: p, timeout: seatTimeout, holder: func(request *http.Request) string {
		holder, _ := request.Context().Value(holderKey{}).(string)
		return holder
	}}
}

type holderKey struct{}

// WithHolder returns a context for the requests of a holder.
func WithHolder(ctx context.Context, holder string) context.Context {
	return context.WithValue(ctx, holderKey{}, holder)
}

type seated struct {
	next    http.RoundTripper
	seats   *Seats
	holder  func(*http.Request) string
	watches bool
	// timeout is how long an answer waits for a seat.
	timeout time.Duration
}

func (p *seated) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(request)
	if err != nil || response.Body == nil || response.StatusCode == http.StatusSwitchingProtocols || p.watches && isWatch(request) {
		return response, err
	}
	response.Body = &seatedBody{ReadCloser: response.Body, seats: p.seats.seats, holder: p.holder(request), short: p.seats.short, context: request.Context(), timeout: p.timeout}
	return response, nil
}

// WrappedRoundTripper returns the transport below, for client-go.
func (p *seated) WrappedRoundTripper() http.RoundTripper { return p.next }

// seatedBody is an answer; it is read and closed by one goroutine at a time, as every body is.
type seatedBody struct {
	io.ReadCloser
	seats  *fairshare.Seats[string]
	holder string
	// context is that of the request, and timeout how long the answer waits for a seat.
	context context.Context
	timeout time.Duration
	// short is what may be read yet without a seat.
	short int64
	has   bool
	once  sync.Once
}

func (b *seatedBody) Read(into []byte) (int, error) {
	if b.short <= 0 && !b.has {
		return b.beyond(into)
	}
	if !b.has && int64(len(into)) > b.short {
		into = into[:b.short]
	}
	n, err := b.ReadCloser.Read(into)
	b.short -= int64(n)
	return n, err
}

// beyond reads the first byte after the short part, for which there must be a seat unless the answer ends there.
func (b *seatedBody) beyond(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	n, err := b.ReadCloser.Read(into[:1])
	if n == 0 {
		return 0, err
	}
	if b.has = b.take(); !b.has {
		return 0, &BusyError{}
	}
	return n, err
}

// take takes a seat, and reports whether there was one in time.
func (b *seatedBody) take() bool {
	for deadline := time.Now().Add(b.timeout); !b.seats.Acquire(b.holder); {
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-b.context.Done():
			return false
		case <-time.After(seatPoll):
		}
	}
	return true
}

func (b *seatedBody) Close() error {
	b.once.Do(func() {
		if b.has {
			b.seats.Release(b.holder)
		}
	})
	return b.ReadCloser.Close()
}
