// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
)

// Connections holds at most one Connection per Cluster. Register makes it
// follow the Clusters of a manager.
type Connections struct {
	options Options
	dialer  *dialer
	metrics *metrics

	nodeSubscribers    subscribers[NodeMapper]
	clusterSubscribers subscribers[ClusterMapper]

	mu         sync.RWMutex
	connectors map[client.ObjectKey]*connector
	running    sync.WaitGroup
	ctx        context.Context
	stop       context.CancelFunc
}

// New returns Connections that have no Cluster yet.
func New(options Options) *Connections {
	c := &Connections{
		options:    options.withDefaults(),
		connectors: map[client.ObjectKey]*connector{},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.dialer = newDialer(&c.options)
	c.metrics = &metrics{c}
	return c
}

// Get returns the connection to a workload cluster. It never waits and sends
// no request. Its only error is a NotConnectedError.
func (c *Connections) Get(cluster client.ObjectKey) (*Connection, error) {
	v := c.look(cluster)
	if v.connection == nil {
		return nil, &NotConnectedError{
			Cluster: cluster,
			Since:   v.state.DisconnectedSince,
			Reason:  v.state.Reason,
			Message: v.state.Message,
		}
	}
	return v.connection, nil
}

// State returns the state of the connection to a workload cluster.
func (c *Connections) State(cluster client.ObjectKey) State { return c.look(cluster).state }

func (c *Connections) look(cluster client.ObjectKey) view {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.connectors[cluster]; k != nil {
		return *k.view.Load()
	}
	return view{state: State{Reason: ReasonConnecting, Message: "no attempt to connect has begun yet"}}
}

func (c *Connections) views() map[client.ObjectKey]view {
	c.mu.RLock()
	defer c.mu.RUnlock()
	views := make(map[client.ObjectKey]view, len(c.connectors))
	for cluster, k := range c.connectors {
		views[cluster] = *k.view.Load()
	}
	return views
}

// Start keeps the connections until ctx ends, then closes them and returns when
// all are closed. The manager calls it.
func (c *Connections) Start(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// keep begins to connect to a Cluster, unless it is kept already, and passes on
// which version of its kubeconfig Secret exists. A Cluster that was deleted and
// made again under the same name starts afresh.
func (c *Connections) keep(log logr.Logger, cluster client.ObjectKey, uid types.UID, secretVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	k := c.connectors[cluster]
	if k != nil && k.uid != uid {
		k.stop()
		k = nil
	}
	if k == nil {
		k = c.newConnector(log, cluster, uid)
		c.connectors[cluster] = k
	}
	k.secretSeen(secretVersion)
}

// drop closes the connection to a Cluster and removes it.
func (c *Connections) drop(cluster client.ObjectKey) {
	c.mu.Lock()
	k := c.connectors[cluster]
	delete(c.connectors, cluster)
	c.mu.Unlock()
	if k != nil {
		k.released.Store(true)
		k.stop()
		c.enqueueCluster(cluster)
	}
}

func (c *Connections) newConnector(log logr.Logger, cluster client.ObjectKey, uid types.UID) *connector {
	ctx, stop := context.WithCancel(c.ctx)
	notifier := newNodeNotifier(notifyPeriod, func(node *corev1.Node) { c.enqueueNode(cluster, node) })
	k := &connector{
		cluster: cluster,
		uid:     uid,
		options: &c.options,
		log:     log,
		stop:    stop,
		changed: func() { c.enqueueCluster(cluster) },
		dial:    c.metrics.dial(c.dialer.dial),
		probe:   countProbe(c.dialer.probe),
		claim: func(ctx context.Context, connection *Connection) *Claim {
			return c.dialer.claim(ctx, cluster, connection)
		},
		observer: nodecache.Observer{
			Changed: func(node *corev1.Node) {
				announced()
				notifier.changed(node)
			},
			Unchanged: suppressed,
		},
	}
	k.initialize()
	c.running.Go(func() { k.run(ctx) })
	return k
}
