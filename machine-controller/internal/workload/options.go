// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say how connections are made and kept. The zero value of each field
// but Reader stands for its default.
type Options struct {
	// Reader reads kubeconfig Secrets from the management cluster. It should
	// not be a cache. Register fills in the manager's API reader if it is nil.
	Reader client.Reader

	// Clock tells the time and wakes. Default: the real clock.
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

	// SyncTimeout bounds each listing of a workload cluster's Nodes. Default: 1m.
	SyncTimeout time.Duration

	// ConcurrentSyncs is how many clusters may list their Nodes for the first
	// time at the same moment; it bounds memory when the manager starts with
	// hundreds of clusters. Default: 20.
	ConcurrentSyncs int

	// RequestTimeout bounds each request of a Connection's Client and Clientset,
	// and the time that it waits for its turn by QPS and Burst. Default: 10s.
	RequestTimeout time.Duration

	// QPS and Burst limit what all callers of one Connection ask of its API
	// server together; probes and the Node watch do not count. They keep one manager from
	// crowding out others; a drain takes about five requests a Node. Defaults: 200, 400.
	QPS   float32
	Burst int

	// UserAgent is what API servers log. Default: client-go's.
	UserAgent string

	// AllowInsecureTLS accepts kubeconfigs that turn TLS verification off or
	// use plain HTTP. Whoever sits on the path to such an API server can take
	// the kubeconfig's credentials, so the default is to refuse them.
	AllowInsecureTLS bool

	// Namespace limits the Clusters to one namespace. Default: all.
	Namespace string

	// WatchFilter limits the Clusters to those whose label
	// cluster.x-k8s.io/watch-filter has this value. Default: all.
	WatchFilter string

	// Registerer takes the metrics. Default: controller-runtime's registry.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
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
