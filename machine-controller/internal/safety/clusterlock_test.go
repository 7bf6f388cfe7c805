// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClusterLocksAreRemoved has many decisions about a few Clusters at once.
func TestClusterLocksAreRemoved(t *testing.T) {
	t.Parallel()
	l := newReservations(clock.RealClock{})
	const clusters, decisions = 3, 50
	var deciding sync.WaitGroup
	counts := make([]int, clusters) // the race detector reports it if two decide at once
	for i := range clusters * decisions {
		deciding.Go(func() {
			unlock := l.lock(client.ObjectKey{Name: fmt.Sprint(i % clusters)})
			defer unlock()
			counts[i%clusters]++
		})
	}
	deciding.Wait()
	for i, n := range counts {
		if n != decisions {
			t.Errorf("cluster %d: %d decisions", i, n)
		}
	}
	if len(l.clusters) != 0 {
		t.Errorf("%d Clusters are kept", len(l.clusters))
	}
}
