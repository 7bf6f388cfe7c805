// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	"drover.io/runtime/fairshare"
)

// syncPlaces are the places of workload clusters whose Nodes are listed for the first time. A namespace takes half of them
// at most, so that the clusters of one, whose API servers hang, do not hold up those of others.
type syncPlaces struct {
	places *fairshare.Places[string]

	mu sync.Mutex
	// returned is closed, and replaced, when a place is given back.
	returned chan struct{}
}

func newSyncPlaces(n int) *syncPlaces {
	return &syncPlaces{places: fairshare.New[string](n), returned: make(chan struct{})}
}

// take waits for a place of a namespace, which give gives back.
func (p *syncPlaces) take(ctx context.Context, namespace string) (give func(), err error) {
	for {
		p.mu.Lock()
		returned := p.returned
		p.mu.Unlock()
		if p.places.Take(namespace) {
			return func() { p.give(namespace) }, nil
		}
		select {
		case <-returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *syncPlaces) give(namespace string) {
	p.places.Give(namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.returned)
	p.returned = make(chan struct{})
}
