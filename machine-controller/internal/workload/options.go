// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/predicates"
)

// Options configure how connections are made and kept. The zero value of each field
// but Reader stands for its default.
type Options struct {
	// Reader reads kubeconfig Secrets from the management cluster. It should
	// not be a cache. Register fills in the manager's API reader if it is nil.
	Reader client.Reader

	// Clock has the time and the timers. Default: the real clock.
	Clock clock.Clock

	// Jitter returns numbers in [0,1) that spread probes and retries of many
	// clusters over time. Default: math/rand.
	Jitter func() float64

	// ProbeInterval is the time between two probes of a connection. Default: 10s.
	ProbeInterval time.Duration

	// ProbeTimeout bounds a probe, and connecting and reading the kubeconfig
	// before the first one. Default: 5s.
	ProbeTimeout time.Duration

	// FailureThreshold is the number of probes that must fail one after another
	// before a connection is given up. Default: 5.
	FailureThreshold int

	// RetryInterval is the time after the first attempt to connect that failed;
	// it doubles with each attempt up to MaxRetryInterval. Defaults: 1s, 30s.
	RetryInterval, MaxRetryInterval time.Duration

	// SyncTimeout bounds each listing of a workload cluster's Nodes, but the first by which a
	// connection is made: that has FirstSyncTimeout, so that clusters that never answer do not
	// hold up the others, and a cluster that needs longer gets it with the next attempt.
	// SyncTimeout also bounds how long the beginning of a watch is waited for.
	// Defaults: 1m, 10s.
	SyncTimeout, FirstSyncTimeout time.Duration

	// ConcurrentSyncs is how many clusters may list their Nodes for the first
	// time at the same moment, half of them of one namespace, and how many of those that were
	// late with it; it bounds memory when the manager starts with hundreds of clusters. Default: 20.
	ConcurrentSyncs int

	// RequestTimeout bounds each request of a Connection's Client and Clientset,
	// and the time that it waits for its turn by QPS and Burst. Default: 10s.
	RequestTimeout time.Duration

	// QPS and Burst limit the requests of all callers of one Connection to its API
	// server together; probes and the Node watch do not count. They keep one manager from
	// crowding out others; a drain takes about five requests a Node. Defaults: 200, 400.
	QPS   float32
	Burst int

	// NodeMemory is how much memory, in bytes, the cached Nodes of all workload clusters of a
	// namespace may take, about. A usual Node takes 5 KiB. Default: no limit.
	NodeMemory int64

	// UserAgent is what API servers log. Default: client-go's.
	UserAgent string

	// AllowInsecureTLS accepts kubeconfigs that turn TLS verification off or
	// use plain HTTP. A host on the path to such an API server can take
	// the kubeconfig's credentials, so the default is to refuse them.
	AllowInsecureTLS bool

	// AllowProxy accepts kubeconfigs with a proxy-url. By such a URL the author of the
	// Secret makes the manager send plain text of their choice to any host that it can reach,
	// so the default is to refuse it. The manager's own proxy, from its environment, is used
	// either way.
	AllowProxy bool

	// Namespace limits the Clusters to one namespace. Default: all.
	Namespace string

	// Watch limits the Clusters to those of the manager. Default: all.
	Watch predicates.WatchFilter

	// Claimer claims each workload cluster for this management cluster. Default:
	// every workload cluster counts as claimed.
	Claimer Claimer

	// ClaimInterval is the time between two renewals of a claim. Default: 1m.
	ClaimInterval time.Duration

	// Registerer takes the metrics. Default: controller-runtime's registry.
	Registerer prometheus.Registerer
}

// Claimer claims workload clusters; package claim has the one in use.
type Claimer interface {
	// Claim claims the workload cluster, or renews the claim. After an error
	// the claim has not changed.
	Claim(ctx context.Context, remote client.Client, cluster client.ObjectKey) (Claim, error)
	// Release gives the claim up, if this process holds it.
	Release(ctx context.Context, remote client.Client, cluster client.ObjectKey) error
}

// unclaimed is the Claimer of those who need none.
type unclaimed struct{}

func (unclaimed) Claim(context.Context, client.Client, client.ObjectKey) (Claim, error) {
	return Claim{Status: ClaimHeld}, nil
}

func (unclaimed) Release(context.Context, client.Client, client.ObjectKey) error { return nil }

func (o Options) withDefaults() Options {
	if o.Claimer == nil {
		o.Claimer = unclaimed{}
	}
	o.ClaimInterval = cmp.Or(o.ClaimInterval, time.Minute)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	o.ProbeInterval = cmp.Or(o.ProbeInterval, 10*time.Second)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 5*time.Second)
	o.FailureThreshold = cmp.Or(o.FailureThreshold, 5)
	o.RetryInterval = cmp.Or(o.RetryInterval, time.Second)
	o.MaxRetryInterval = cmp.Or(o.MaxRetryInterval, 30*time.Second)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, time.Minute)
	o.FirstSyncTimeout = cmp.Or(o.FirstSyncTimeout, min(10*time.Second, o.SyncTimeout))
	o.ConcurrentSyncs = cmp.Or(o.ConcurrentSyncs, 20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.QPS = cmp.Or(o.QPS, 200)
	o.Burst = cmp.Or(o.Burst, 400)
	return o
}

// retryAfter returns how long to wait after the nth attempt in a row that
// failed: half of the doubled interval for sure, the other half by jitter.
func (o *Options) retryAfter(attempts int) time.Duration {
	wait := o.RetryInterval
	for range attempts - 1 {
		if wait >= o.MaxRetryInterval {
			break
		}
		wait *= 2
	}
	wait = min(wait, o.MaxRetryInterval)
	return wait/2 + time.Duration(o.Jitter()*float64(wait/2))
}

// nextProbeAfter spreads probes by a tenth of their interval.
func (o *Options) nextProbeAfter() time.Duration {
	return o.ProbeInterval - time.Duration(o.Jitter()*float64(o.ProbeInterval/10))
}
