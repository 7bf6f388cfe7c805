// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// TestMessagesOfAPIServersAreTruncated: a message is in the conditions of the Cluster and of all that belongs to it.
func TestMessagesOfAPIServersAreTruncated(t *testing.T) {
	t.Parallel()
	d, connections := opened(t, 1, func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if request.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"major":"1"}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"` + strings.Repeat("é", 5000) + `"}`))
	})
	for what, failure := range map[string]*failure{
		"the list of Nodes": d.sync(t.Context(), connections[0], client.ObjectKey{}, false), "the probe": d.probe(t.Context(), connections[0]),
	} {
		if failure == nil || failure.reason != ReasonForbidden || len(failure.message) > requesterror.MaxMessage+len("…"+grantPermissions) || !strings.HasSuffix(failure.message, "é…"+grantPermissions) {
			t.Errorf("%s: got %v", what, failure)
		}
	}
}

// TestClaimIsThatOfItsKubeconfig rotates a kubeconfig to one that may lead to another cluster, where nothing is known of the claim.
func TestClaimIsThatOfItsKubeconfig(t *testing.T) {
	t.Parallel()
	options := Options{Clock: clocktesting.NewFakeClock(epoch)}.withDefaults()
	k := &connector{options: &options, changed: func() {}}
	k.initialize()
	done := make(chan struct{})
	k.done = done
	t.Cleanup(func() {
		close(done)
		k.closing.Wait()
	})
	open := func(content string) *Connection {
		nodes := nodecache.New(nodecache.Observer{Changed: func(*corev1.Node) {}}, nil, "")
		return &Connection{nodes: nodes, watch: newNodeWatch(nil, nodes, 0, false), stopWatch: func() {}, transport: emptyTransport(t), content: content}
	}
	expect := func(what string, want ClaimStatus) {
		t.Helper()
		if k.publish(); k.view.Load().state.Claim.Status != want {
			t.Errorf("%s the claim is %q, want %q", what, k.view.Load().state.Claim.Status, want)
		}
	}
	k.onDialResult(dialResult{connection: open("A"), claim: &Claim{Status: ClaimHeld}})
	k.onDialResult(dialResult{connection: open("A")})
	expect("with the same kubeconfig", ClaimHeld)
	b := open("B")
	k.onDialResult(dialResult{connection: b})
	expect("with another kubeconfig", ClaimUnknown)
	k.onProbeResult(probeResult{connection: b, claim: &Claim{Status: ClaimForeign}})
	expect("once it is known", ClaimForeign)
	k.onProbeResult(probeResult{connection: b})
	expect("after an attempt without a result", ClaimForeign)
}

// TestWhyAClaimFailsIsReported has an API server that serves Leases and refuses to write them, as with a full disk or an
// admission webhook that does not answer.
func TestWhyAClaimFailsIsReported(t *testing.T) {
	t.Parallel()
	d, connections := opened(t, 1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcdserver: mvcc: database space exceeded"}`))
	})
	d.options.Claimer = reading{}
	attempt := func() *Claim {
		return d.claim(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "c"}, connections[0])
	}
	s := newConnectorTest(t)
	s.step("connects", func() {
		s.k.onDialResult(dialResult{connection: s.connection("A"), secretVersion: "1", claim: attempt()})
	})
	if got := s.k.view.Load().state.Claim; got.Status != ClaimUnknown || !strings.Contains(got.Message, "database space exceeded") {
		t.Errorf("after the first attempt the claim is %+v", got)
	}
	s.step("holds the claim", func() {
		s.k.onProbeResult(probeResult{connection: s.k.connection, claim: &Claim{Status: ClaimHeld}})
	})
	s.step("fails to renew it", func() { s.k.onProbeResult(probeResult{connection: s.k.connection, claim: attempt()}) })
	if got := s.k.view.Load().state.Claim; got != (Claim{Status: ClaimHeld}) {
		t.Errorf("a claim that is held became %+v", got)
	}
	s.step("has another kubeconfig", func() {
		s.k.onDialResult(dialResult{connection: s.connection("B"), secretVersion: "2", claim: attempt()})
	})
	if got := s.k.view.Load().state.Claim; got.Status != ClaimUnknown || got.Message == "" {
		t.Errorf("with another kubeconfig the claim is %+v", got)
	}
}

func emptyTransport(t *testing.T) *workload.Transport {
	t.Helper()
	_, connections := opened(t, 1, func(http.ResponseWriter, *http.Request) {})
	return connections[0].transport
}

// TestUnansweredWatchIsGivenUp lists its Nodes and never begins the answer to their watch: they are listed again.
func TestUnansweredWatchIsGivenUp(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, func(o *Options) { o.SyncTimeout = 500 * time.Millisecond })
	ended := make(chan struct{})
	config := before(t, a, func(response http.ResponseWriter, request *http.Request) bool {
		switch query := request.URL.Query(); {
		case query.Has("sendInitialEvents"):
			http.Error(response, "no streams", http.StatusBadRequest)
		case query.Has("watch"):
			select {
			case <-ended:
			case <-request.Context().Done():
			}
		default:
			return false
		}
		return true
	})
	t.Cleanup(w.stop)
	t.Cleanup(func() { close(ended) })
	w.cluster("a", kubeconfigOf(t, config))
	w.connected("a")
	createNode(t, liveClient(t, a), "unwatched", "sim://unwatched")
	w.Eventually(func() int {
		connection, err := w.connections.Get(w.key("a"))
		if err != nil {
			return 0
		}
		return len(connection.NodesByProviderID("sim://unwatched"))
	}).Should(gomega.Equal(1))
}
