// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NodeMapper returns the requests for a changed Node of a workload cluster.
// It is called from goroutines of that cluster, must not block, and is called at
// most every 200 ms for one Node; reading a cache is fine. The Node is shared and slim.
type NodeMapper func(cluster client.ObjectKey, node *corev1.Node) []reconcile.Request

// ClusterMapper returns the requests for a change of a Cluster's State. It
// must not block.
type ClusterMapper func(cluster client.ObjectKey) []reconcile.Request

// subscribers are the controllers that get events, each with its mapper.
// Requests go straight into their queues, which never block, so that no slow
// controller delays a connection.
type subscribers[M any] struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*subscriber[M]]
}

type subscriber[M any] struct {
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	mapper M
}

// NodeEvents returns a source that enqueues what mapper returns for each Node, in
// any connected workload cluster, that is new, changed in a field that
// nodecache.Slim keeps, or deleted. A heartbeat is none of these. After an
// interruption only what changed meanwhile is enqueued. When mapper is called,
// Get already returns the Connection that has the change.
func (c *Connections) NodeEvents(mapper NodeMapper) source.Source {
	return c.nodeSubscribers.source(mapper)
}

// ClusterEvents returns a source that enqueues what mapper returns when a cluster
// is connected, reconnected with another kubeconfig or disconnected, when
// its State's reason or message changes, and when it is no longer followed.
func (c *Connections) ClusterEvents(mapper ClusterMapper) source.Source {
	return c.clusterSubscribers.source(mapper)
}

func (c *Connections) wakeNode(cluster client.ObjectKey, node *corev1.Node) {
	for _, s := range c.nodeSubscribers.all() {
		enqueue(s.queue, s.mapper(cluster, node))
	}
}

func (c *Connections) wakeCluster(cluster client.ObjectKey) {
	for _, s := range c.clusterSubscribers.all() {
		enqueue(s.queue, s.mapper(cluster))
	}
}

func (s *subscribers[M]) source(mapper M) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		one := &subscriber[M]{queue: queue, mapper: mapper}
		s.change(func(all []*subscriber[M]) []*subscriber[M] { return append(all, one) })
		context.AfterFunc(ctx, func() {
			s.change(func(all []*subscriber[M]) []*subscriber[M] {
				return slices.DeleteFunc(all, func(other *subscriber[M]) bool { return other == one })
			})
		})
		return nil
	})
}

// change replaces the list with an edited copy; readers keep the one they have.
func (s *subscribers[M]) change(edit func([]*subscriber[M]) []*subscriber[M]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edited := edit(slices.Clone(s.all()))
	s.list.Store(&edited)
}

func (s *subscribers[M]) all() []*subscriber[M] {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

func enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) {
	for _, request := range requests {
		queue.Add(request)
	}
}
