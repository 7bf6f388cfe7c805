// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
)

// TestNodeEventsOfANamespaceAreBounded has an API server that sends events of a Node as fast as they are read, with a
// budget of 100 events, and 100 more a second.
func TestNodeEventsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	d, connections := opened(t, 1, func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case request.URL.Query().Has("sendInitialEvents"):
			w.WriteHeader(http.StatusBadRequest)
		case request.URL.Query().Has("watch"):
			for i := 2; request.Context().Err() == nil; i++ {
				if _, err := fmt.Fprintf(w, `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"u","resourceVersion":"%d"},"spec":{"unschedulable":%t}}}`, i, i%2 == 0); err != nil {
					return
				}
				sent.Add(1)
			}
		default:
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
		}
	})
	d.nodePace.namespaces.Set("tenant", &nodeBudget{rate.NewLimiter(100, 100), rate.NewLimiter(rate.Inf, 0)})
	c := connections[0]
	var changes atomic.Int64
	c.nodes = nodecache.New(nodecache.Observer{Changed: func(*corev1.Node) { changes.Add(1) }, Unchanged: func() {}, Full: func() {}}, nil, "tenant")
	c.watch.cache = c.nodes
	if failure := d.sync(t.Context(), c, client.ObjectKey{Namespace: "tenant"}, false); failure != nil {
		t.Fatal(failure)
	}
	c.nodes.Announce(nil)
	began := time.Now()
	time.Sleep(2 * time.Second)
	// What is in one piece of the answer is counted together.
	if got, most := changes.Load(), int64(1000+100*time.Since(began).Seconds()); got > most {
		t.Errorf("%d changes of %d that were sent, want at most %d", got, sent.Load(), most)
	}
}

func TestNodePace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// events come each second, with so many bytes, for so many seconds.
		events, bytes, seconds int
		want                   error
	}{
		"is not reached by 5,000 Nodes that change every 10 s":    {500, 10 << 20, 300, nil},
		"is not reached by 5,000 Nodes that report every 5 min":   {17, 17 * 20 << 10, 300, nil},
		"is not reached by 50,000 Nodes when their watches begin": {50_000, 0, 2, nil},
		"is exceeded by more events":                              {3000, 3000 * 100, 300, errTooManyEvents},
		"is exceeded by more bytes":                               {10, 64 << 20, 300, errTooManyEvents},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &nodePacer{pace: newNodePace(), namespace: "tenant"}
				for range test.seconds {
					next := time.Now().Add(time.Second)
					if err := p.wait(t.Context(), test.events, test.bytes); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(next))
				}
				if got := p.trouble(); got != test.want { //nolint:errorlint // it is returned as it is
					t.Errorf("got %v, want %v", got, test.want)
				}
			})
		})
	}
}

// Two connections of one namespace have one budget, and one of another namespace has its own.
func TestNodePaceIsSharedByTheNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace := newNodePace()
		a, b, other := &nodePacer{pace: pace, namespace: "a"}, &nodePacer{pace: pace, namespace: "a"}, &nodePacer{pace: pace, namespace: "b"}
		waits := func(p *nodePacer) time.Duration {
			began := time.Now()
			if err := p.wait(t.Context(), nodeEventRate, 0); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if err := a.wait(t.Context(), nodeEventBurst, 0); err != nil {
			t.Fatal(err)
		}
		if got := waits(b); got != time.Second {
			t.Errorf("the other connection of the namespace waits %s, want 1s", got)
		}
		if got := waits(other); got != 0 {
			t.Errorf("the connection of another namespace waits %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.wait(ctx, nodeEventBurst, 0); err == nil {
			t.Error("the end of the watch does not end the wait")
		}
	})
}

func TestTooManyNodeEventsAreReported(t *testing.T) {
	t.Parallel()
	d, connections := opened(t, 1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1"}`))
	})
	connections[0].watch.pacer.since = time.Now().Add(-pacedPeriod)
	if failure := d.probe(t.Context(), connections[0]); failure == nil || failure.reason != ReasonTooManyNodeEvents {
		t.Errorf("the probe: %v", failure)
	}
}

func TestEventsOfAWatchAreCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pieces []string
		want   int
	}{
		"on lines":                       {[]string{"{\"a\":{}}\n{\"a\":[]}\n"}, 2},
		"without lines between":          {[]string{`{}{}{"a":1}`}, 3},
		"in pieces":                      {[]string{`{"a":{"b`, `":1}`, `}{`, `}`}, 2},
		"with braces in strings":         {[]string{`{"a":"}}}\"}}\\"}`}, 1},
		"with more ends than beginnings": {[]string{`}}}`}, 3},
		"none yet":                       {[]string{`{"a":{}`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, got := &pacedBody{}, 0
			for _, each := range test.pieces {
				got += b.count([]byte(each))
			}
			if got != test.want {
				t.Errorf("counted %d, want %d", got, test.want)
			}
		})
	}
}
