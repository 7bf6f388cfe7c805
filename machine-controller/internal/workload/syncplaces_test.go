// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFirstListsOfANamespaceLeaveSeatsToOthers has API servers of one namespace that never answer a list of Nodes, more
// than there are seats, and one of another namespace.
func TestFirstListsOfANamespaceLeaveSeatsToOthers(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"first lists": false, "lists of clusters that were late before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clusters = 50
			hung := make(chan struct{}, clusters)
			d, hanging := opened(t, clusters, func(_ http.ResponseWriter, request *http.Request) {
				hung <- struct{}{}
				<-request.Context().Done()
			})
			d.options.FirstSyncTimeout, d.options.SyncTimeout = time.Hour, time.Hour
			_, well := opened(t, 1, func(w http.ResponseWriter, request *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case request.URL.Query().Has("sendInitialEvents"):
					w.WriteHeader(http.StatusBadRequest)
				case request.URL.Query().Has("watch"):
					<-request.Context().Done()
				default:
					_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			for _, each := range hanging {
				go func() { _ = d.sync(ctx, each, client.ObjectKey{Namespace: "tenant"}, late) }()
			}
			for range d.options.ConcurrentSyncs / 2 {
				<-hung
			}
			if failure := d.sync(t.Context(), well[0], client.ObjectKey{Namespace: "other"}, late); failure != nil {
				t.Errorf("the cluster of another namespace: %v", failure)
			}
		})
	}
}

// TestSyncDelayIsKeptAfterClusterRemoval lists the Nodes of an API server that was late, for a Cluster that was deleted and made
// again.
func TestSyncDelayIsKeptAfterClusterRemoval(t *testing.T) {
	t.Parallel()
	d, connections := opened(t, 2, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	d.options.FirstSyncTimeout, d.options.SyncTimeout = 100*time.Millisecond, 200*time.Millisecond
	for i, want := range []string{"100ms", "200ms"} {
		failure := d.sync(t.Context(), connections[i], client.ObjectKey{Namespace: "tenant", Name: "c"}, false)
		if wanted := "API server " + connections[i].host + ": its Nodes could not be listed within " + want; failure == nil || failure.message != wanted {
			t.Errorf("attempt %d: got %v, want %q", i+1, failure, wanted)
		}
	}
	if other := (client.ObjectKey{Namespace: "tenant", Name: "other"}); d.late.Has(clusterHost{other, connections[0].host}) {
		t.Error("another cluster at the same host counts as late")
	}
}
