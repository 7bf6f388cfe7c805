// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
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
	clocktesting "k8s.io/utils/clock/testing"
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

// TestCertificateRequestsOfANamespaceAreReadAtAPace: an API server that sends requests without end must not take a CPU for
// each of its Clusters, nor memory for what is read later.
func TestCertificateRequestsOfANamespaceAreReadAtAPace(t *testing.T) {
	t.Parallel()
	connections := NewConnections(nil, clock.RealClock{})
	now := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	connections.pace = newRequestPace(now)
	event := fmt.Appendf(nil, eventFormat+"\n", strings.Repeat("x", 32<<10))
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
	}
	read := func(name, watch string) (int64, error) {
		t.Helper()
		client := connectTo(t, connections, name, endless).Certificates.RESTClient()
		stream, err := client.Get().Resource("certificatesigningrequests").Param("watch", watch).Stream(t.Context())
		if err != nil {
			return 0, err
		}
		defer func() { _ = stream.Close() }()
		return io.Copy(io.Discard, stream)
	}
	if n, err := read("one", "true"); !errors.Is(err, ErrTooManyRequests) || n > requestByteBurst {
		t.Errorf("%d MiB of a watch were read, want %d at most, then %v", n>>20, requestByteBurst>>20, err)
	}
	for _, watch := range []string{"true", ""} {
		if n, err := read("another", watch); !errors.Is(err, ErrTooManyRequests) || n > 0 {
			t.Errorf("watch=%s: of another Cluster of the namespace %d MiB are read, then %v", watch, n>>20, err)
		}
	}
	now.SetTime(now.Now().Add(time.Second))
	if n, err := read("another", "true"); !errors.Is(err, ErrTooManyRequests) || n == 0 || n >= 2*requestByteRate {
		t.Errorf("a second later %d KiB are read, want %d and what was left, then %v", n>>10, requestByteRate>>10, err)
	}
	if !connections.pace.allow("other", requestByteBurst) {
		t.Error("another namespace has no bytes left")
	}
}
