// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Prober probes the API server of the management cluster periodically.
type Prober struct {
	// Config reaches the management cluster.
	Config *rest.Config
	Clock  clock.Clock
	// Period is the time between two probes, Timeout how long probes may fail until the API
	// server counts as unreachable.
	Period, Timeout time.Duration

	mu           sync.Mutex
	reachability Reachability
}

// Reachability returns the result of the probes so far.
func (p *Prober) Reachability() Reachability {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reachability
}

// Register adds the probes to the manager.
func (p *Prober) Register(mgr ctrl.Manager) error {
	if err := mgr.Add(p); err != nil {
		return fmt.Errorf("adding the probe of the management cluster: %w", err)
	}
	return nil
}

// NeedLeaderElection is false: the result is known before the process becomes the leader.
func (p *Prober) NeedLeaderElection() bool { return false }

// Start probes until ctx ends. The manager calls it.
func (p *Prober) Start(ctx context.Context) error {
	config := rest.CopyConfig(p.Config)
	config.QPS, config.Timeout = -1, p.Period
	config.GroupVersion, config.NegotiatedSerializer = nil, nil
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making a client for probes: %w", err)
	}
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("reading the address of the management cluster: %w", err)
	}
	host = host.JoinPath("readyz")
	for ctx.Err() == nil {
		answered := probe(ctx, transport, host.String())
		p.record(answered)
		select {
		case <-ctx.Done():
		case <-p.Clock.After(p.Period):
		}
	}
	return nil
}

func (p *Prober) record(answered bool) {
	if answered {
		probes.Inc("answered")
	} else {
		probes.Inc("unanswered")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reachability = p.reachability.Probed(answered, p.Clock.Now(), p.Timeout)
}

// probe reports whether the API server answered and works. An answer that refuses access to /readyz counts.
func probe(ctx context.Context, c *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := c.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusTooManyRequests
}
