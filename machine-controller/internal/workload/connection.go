// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/workload"
)

// Connection reaches one workload cluster with one kubeconfig. Get one from
// Connections for each reconcile and do not keep it: once it is replaced or
// given up, its requests fail and its Nodes get no newer.
type Connection struct {
	client client.Client
	// claiming reads and writes the claim. No worker waits for it, so it has no part in what bounds them.
	claiming  client.Client
	clientset func() kubernetes.Interface
	prober    rest.Interface
	nodes     *nodecache.Cache
	watch     *nodeWatch
	transport *workload.Transport
	content   string
	host      string
	stopWatch context.CancelFunc
	watching  sync.WaitGroup
}

// Client reads and writes live, without a cache. A request waits at most
// RequestTimeout for its turn and then as long for its answer, and is not
// repeated. It has the kinds of newMapper.
func (c *Connection) Client() client.Client { return c.client }

// Clientset is for libraries that want one; it is made by the first call,
// and bounded like Client.
func (c *Connection) Clientset() kubernetes.Interface { return c.clientset() }

// NodesByProviderID returns the cached Nodes with this providerID, in the order
// of their names. They are shared and slim (see nodecache.Slim): do not change
// them, and never send one back with Update.
func (c *Connection) NodesByProviderID(id string) []*corev1.Node { return c.nodes.ByProviderID(id) }

// Node returns the cached Node with this name, shared and slim like those of
// NodesByProviderID.
func (c *Connection) Node(name string) (*corev1.Node, bool) { return c.nodes.Node(name) }

// Synced reports whether the cached Nodes are being kept up to date. It is
// false while the last attempt to list or watch them failed, and once the
// Connection was replaced or given up; they then keep the state that was seen
// last, and a Node that is missing proves nothing.
func (c *Connection) Synced() bool {
	select {
	case <-c.nodes.Synced():
		return c.watch.lastError() == nil
	default:
		return false
	}
}

// close ends the Node watch and all requests, and returns when nothing is left.
func (c *Connection) close() {
	c.watch.stop()
	c.stopWatch()
	c.transport.Close()
	c.watching.Wait()
}

// retire ends the Node watch now and the rest after grace, or when done is
// closed, so that requests which callers have just sent are still answered.
func (c *Connection) retire(grace <-chan time.Time, done <-chan struct{}) {
	c.watch.stop()
	c.stopWatch()
	select {
	case <-grace:
	case <-done:
	}
	c.close()
}
