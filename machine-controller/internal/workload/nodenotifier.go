// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// notifyPeriod is how often controllers are notified of changes of one Node.
const notifyPeriod = 200 * time.Millisecond

// nodeNotifier merges the changes of each Node: the first is passed on at once, and of those that follow within a period
// the newest at its end. A Node counts as another one when its providerID changes, so that the Machines of both
// providerIDs are notified.
type nodeNotifier struct {
	period time.Duration
	notify func(*corev1.Node)

	mu sync.Mutex
	// recent are the Nodes that were passed on in the present period, with their newest change since, if there is one.
	recent map[nodeIdentity]*corev1.Node
}

type nodeIdentity struct{ name, providerID string }

func newNodeNotifier(period time.Duration, notify func(*corev1.Node)) *nodeNotifier {
	return &nodeNotifier{period: period, notify: notify, recent: map[nodeIdentity]*corev1.Node{}}
}

// changed passes the Node on, now or at the end of the period.
func (n *nodeNotifier) changed(node *corev1.Node) {
	identity := nodeIdentity{node.Name, node.Spec.ProviderID}
	n.mu.Lock()
	_, recently := n.recent[identity]
	if !recently && len(n.recent) == 0 {
		time.AfterFunc(n.period, n.flush)
	}
	if recently {
		n.recent[identity] = node
	} else {
		n.recent[identity] = nil
	}
	n.mu.Unlock()
	if !recently {
		n.notify(node)
	}
}

// flush ends a period and passes on what has changed in it.
func (n *nodeNotifier) flush() {
	n.mu.Lock()
	ended := n.recent
	n.recent = map[nodeIdentity]*corev1.Node{}
	for identity, node := range ended {
		if node != nil {
			n.recent[identity] = nil
		}
	}
	if len(n.recent) > 0 {
		time.AfterFunc(n.period, n.flush)
	}
	n.mu.Unlock()
	for _, node := range ended {
		if node != nil {
			n.notify(node)
		}
	}
}
