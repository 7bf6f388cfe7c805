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

// acquire waits for a seat of a namespace, which release gives back.
func (s *syncSeats) acquire(ctx context.Context, namespace string) (release func(), err error) {
	for {
		s.mu.Lock()
		returned := s.returned
		s.mu.Unlock()
		if s.seats.Acquire(namespace) {
			return func() { s.release(namespace) }, nil
		}
		select {
		case <-returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *syncSeats) release(namespace string) {
	s.seats.Release(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.returned)
	s.returned = make(chan struct{})
}
