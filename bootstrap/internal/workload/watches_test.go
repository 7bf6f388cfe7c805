// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// connectTo returns a connection of the namespace team to an API server.
func connectTo(t *testing.T, connections *Connections, name string, handler http.HandlerFunc) *Connection {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	c, err := connections.connect(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)}}, types.NamespacedName{Namespace: "team", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const eventFormat = `{"type":"ADDED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"csr","annotations":{"a":"%s"}}}}`

// TestLongEventsOfWatchesAreNotRead: each watch holds the event that it reads, and a tenant has any number of Clusters. A
// request of a kubelet has a few KiB.
func TestLongEventsOfWatchesAreNotRead(t *testing.T) {
	t.Parallel()
	connections := NewConnections(nil, clock.RealClock{})
	for name, test := range map[string]struct {
		length int
		read   bool
	}{
		"one as long as that of a kubelet": {8 << 10, true},
		"a long one":                       {1 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connectTo(t, connections, "c", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, eventFormat, strings.Repeat("x", test.length))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			watch, err := c.Certificates.CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			event, open := <-watch.ResultChan()
			if read := open && event.Type == apiwatch.Added; read != test.read {
				t.Errorf("an event of %d bytes is read: %t", test.length, read)
			}
		})
	}
}

// TestWatchesOfANamespaceAreReadAtAPace: an API server that sends events without end must not take a CPU for each of its
// Clusters.
func TestWatchesOfANamespaceAreReadAtAPace(t *testing.T) {
	t.Parallel()
	connections := NewConnections(nil, clock.RealClock{})
	event := fmt.Appendf(nil, eventFormat+"\n", strings.Repeat("x", 32<<10))
	c := connectTo(t, connections, "c", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
	})
	stream, err := c.Certificates.RESTClient().Get().Resource("certificatesigningrequests").Param("watch", "true").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const seconds = 3
	time.AfterFunc(seconds*time.Second, func() { _ = stream.Close() })
	read, _ := io.Copy(io.Discard, stream)
	if most := int64(watchByteBurst + (seconds+1)*watchByteRate); read == 0 || read > most {
		t.Errorf("%d MiB were read in %d s, want %d at most", read>>20, seconds, most>>20)
	}
}
