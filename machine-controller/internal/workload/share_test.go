// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/egress"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/requesterror"
)

// fakeServer is a server whose answers the test gives.
type fakeServer struct {
	share       *share
	clock       *clocktesting.FakePassiveClock
	dialResults chan *http.Response
	sent        chan struct{}
}

func (l *fakeServer) RoundTrip(*http.Request) (*http.Response, error) {
	l.sent <- struct{}{}
	return <-l.dialResults, nil
}

func newFakeServer(clock *clocktesting.FakePassiveClock, namespace string, seats *fairshare.Seats[string]) *fakeServer {
	l := &fakeServer{clock: clock, dialResults: make(chan *http.Response), sent: make(chan struct{}, 100)}
	l.share = newShare(l, clock, namespace, seats)
	return l
}

// get sends a request, which is under way when get returns, unless it fails at once.
func (l *fakeServer) get(t *testing.T) chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		response, err := l.share.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	select {
	case <-l.sent:
	case err := <-ended:
		ended <- err
	}
	return ended
}

func (l *fakeServer) answer() {
	l.dialResults <- &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("x"))}
}

func (l *fakeServer) refuses(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-l.get(t):
		return errors.Is(err, errSlow)
	default:
		return false
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(epoch)
	seats := fairshare.New[string](2)
	a, b, c, well := newFakeServer(clock, "a", seats), newFakeServer(clock, "b", seats), newFakeServer(clock, "c", seats), newFakeServer(clock, "c", seats)
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	// Until they count as slow, all have as many requests as they send.
	first := []chan error{a.get(t), a.get(t), b.get(t), c.get(t)}
	step(slow)
	got := []bool{}
	waiting := a.get(t) // one is sent to find out
	got = append(got, a.refuses(t))
	other := b.get(t)
	got = append(got, c.refuses(t)) // the seats of all are taken
	if diff := cmp.Diff([]bool{true, true}, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	healthy := well.get(t)
	well.answer()
	if err := <-healthy; err != nil {
		t.Errorf("an API server that answers is refused: %v", err)
	}
	for _, l := range []*fakeServer{a, a, b, c} {
		l.answer()
	}
	a.answer()
	b.answer()
	for _, ended := range append(first, waiting, other) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if !seats.Acquire("x") || !seats.Acquire("y") {
		t.Error("not all seats are given back")
	}
	seats.Release("x")
	seats.Release("y")
	// A slow answer counts until a quick one.
	late := a.get(t)
	step(slow)
	a.answer()
	if err := <-late; err != nil {
		t.Error(err)
	}
	step(time.Hour)
	again := a.get(t)
	got = []bool{a.refuses(t)}
	a.answer()
	if err := <-again; err != nil {
		t.Error(err)
	}
	pair := []chan error{a.get(t), a.get(t)}
	a.answer()
	a.answer()
	for _, ended := range pair {
		if err := <-ended; err != nil {
			t.Errorf("it counts as slow for ever: %v", err)
		}
	}
	if diff := cmp.Diff([]bool{true}, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	endless := &body{ReadCloser: io.NopCloser(zeros{}), left: 10, end: func() {}}
	if n, err := io.Copy(io.Discard, endless); n != 10 || !errors.Is(err, errTooLong) {
		t.Errorf("read %d, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// hanging answers /version at once, Nodes if it is set to, and nothing else until the test
// ends. It notes what it does not answer.
func hanging(t *testing.T, nodes bool) (kubeconfig string, hung chan string) {
	t.Helper()
	a, hung, ended := apiServer(t, "a"), make(chan string, 1000), make(chan struct{})
	server := before(t, a, func(_ http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path == "/version" || nodes && request.URL.Path == "/api/v1/nodes" {
			return false
		}
		hung <- request.URL.Path
		<-ended
		return true
	})
	t.Cleanup(func() { close(ended) })
	return kubeconfigOf(t, server), hung
}

// TestClustersThatAnswerPartlyDelayNoOther has a hundred clusters that hang, half of them from the
// first byte on and half after they have answered a probe, and one that is well. Each would keep
// what it holds for an hour.
func TestClustersThatAnswerPartlyDelayNoOther(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, func(o *Options) { o.SyncTimeout, o.FirstSyncTimeout = time.Hour, 300*time.Millisecond })
	hole, _ := blackHole(t)
	toHole := kubeconfigOf(t, at(a, hole))
	halfway, _ := hanging(t, false)
	t.Cleanup(w.stop) // before the servers are closed, which wait for its requests
	for i := range 50 {
		w.cluster(fmt.Sprintf("hole-%d", i), toHole)
		w.cluster(fmt.Sprintf("halfway-%d", i), halfway)
	}
	for i := range 50 {
		w.refused(fmt.Sprintf("halfway-%d", i), ReasonUnreachable)
	}
	w.cluster("a", kubeconfigOf(t, a))
	w.connected("a")
}

// TestClusterThatHangsHasOneWorker connects to an API server that shows its Nodes and answers
// nothing else, and to one that is well.
func TestClusterThatHangsHasOneWorker(t *testing.T) {
	t.Parallel()
	a, clock := apiServer(t, "a"), clocktesting.NewFakeClock(epoch)
	w := newEnvironment(t, func(o *Options) { o.RequestTimeout, o.Clock = time.Hour, clock })
	halfway, hung := hanging(t, true)
	t.Cleanup(w.stop)
	w.cluster("hangs", halfway)
	w.cluster("a", kubeconfigOf(t, a))
	hangs, well := w.connected("hangs"), w.connected("a")
	ended := make(chan error, 2)
	get := func() { ended <- hangs.Client().List(t.Context(), &corev1.PodList{}) }
	go get()
	<-hung
	clock.Step(slow)
	go get() // one more may find out whether it is still slow
	<-hung
	if err := hangs.Client().List(t.Context(), &corev1.PodList{}); !requesterror.IsUnanswered(err) {
		t.Errorf("got %v, want one that asks to come back", err)
	}
	if err := well.Client().List(t.Context(), &corev1.PodList{}); err != nil {
		t.Errorf("the other cluster is held up: %v", err)
	}
	w.deleteCluster("hangs")
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a request that hung succeeded")
		}
	}
}

// TestRedirectsAreNotFollowed has an API server that redirects the manager.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	reached := make(chan struct{}, 1)
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(inside.Close)
	w := newEnvironment(t, asIs)
	redirecting := func(path string) string {
		return kubeconfigOf(t, before(t, a, func(response http.ResponseWriter, request *http.Request) bool {
			if request.URL.Path != path {
				return false
			}
			http.Redirect(response, request, inside.URL, http.StatusFound)
			return true
		}))
	}
	w.cluster("version", redirecting("/version"))
	w.cluster("nodes", redirecting("/api/v1/nodes"))
	w.refused("version", ReasonUnreachable)
	w.refused("nodes", ReasonUnreachable)
	w.cluster("live", redirecting("/api/v1/nodes/n"))
	t.Cleanup(w.stop)
	if err := w.connected("live").Client().Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); !errors.Is(err, egress.ErrRedirected) {
		t.Errorf("got %v", err)
	}
	select {
	case <-reached:
		t.Error("the manager has sent a request to a host that the API server named")
	default:
	}
}

// TestClaimHasNoPartInTheTurnsOfWorkers has an API server with requests that hang, and Leases that it serves: the claim is
// attempted beside the workers of the controllers and holds none of them.
func TestClaimHasNoPartInTheTurnsOfWorkers(t *testing.T) {
	t.Parallel()
	hung, ended := make(chan struct{}, 10), make(chan struct{})
	d, connections := opened(t, 1, func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/api/v1/pods" {
			hung <- struct{}{}
			<-ended
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"claim"}}`))
	})
	t.Cleanup(func() { close(ended) })
	c := connections[0]
	for range 2 { // the second finds out whether it is still slow
		go func() { _ = c.Client().List(t.Context(), &corev1.PodList{}) }()
		<-hung
		time.Sleep(slow)
	}
	lease := &coordinationv1.Lease{}
	if err := c.Client().Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "claim"}, lease); !errors.Is(err, errSlow) {
		t.Fatalf("the request of a worker ends with %v", err)
	}
	d.options.Claimer = reading{}
	if claim := d.claim(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "c"}, c); claim == nil || claim.Status != ClaimHeld {
		t.Errorf("the claim is %+v", claim)
	}
}

// reading is a Claimer that holds what it can read.
type reading struct{}

func (reading) Claim(ctx context.Context, remote client.Client, _ client.ObjectKey) (Claim, error) {
	err := remote.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "claim"}, &coordinationv1.Lease{})
	return Claim{Status: ClaimHeld}, err
}

func (reading) Release(context.Context, client.Client, client.ObjectKey) error { return nil }
