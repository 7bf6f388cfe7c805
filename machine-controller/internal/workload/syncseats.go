// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	"drover.io/runtime/fairshare"
)

// syncSeats are the seats of workload clusters whose Nodes are listed for the first time. A namespace takes half of them
// at most, so that the clusters of one, whose API servers hang, do not hold up those of others.
type syncSeats struct {
	seats *fairshare.Seats[string]

	mu sync.Mutex
	// returned is closed, and replaced, when a seat is given back.
	returned chan struct{}
}

func newSyncSeats(n int) *syncSeats {
	return &syncSeats{seats: fairshare.New[string](n), returned: make(chan struct{})}
}

// take waits for a seat of a namespace, which give gives back.
func (p *syncSeats) take(ctx context.Context, namespace string) (give func(), err error) {
	for {
		p.mu.Lock()
		returned := p.returned
		p.mu.Unlock()
		if p.seats.Acquire(namespace) {
			return func() { p.give(namespace) }, nil
		}
		select {
		case <-returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *syncSeats) give(namespace string) {
	p.seats.Release(namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.returned)
	p.returned = make(chan struct{})
}
