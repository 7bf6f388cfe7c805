// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestProber(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("requested %s", r.URL.Path)
		}
		requests.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	clock := clocktesting.NewFakeClock(noon)
	p := &Prober{Config: &rest.Config{Host: server.URL}, Clock: clock, Period: 10 * time.Second, Timeout: 30 * time.Second}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()

	probes := int32(0)
	next := func(answer int) {
		status.Store(int32(answer))
		if probes++; probes > 1 {
			clock.Step(p.Period)
		}
		g.Eventually(func() bool { return requests.Load() == probes && clock.HasWaiters() }).Should(gomega.BeTrue())
	}
	g.Eventually(clock.HasWaiters).Should(gomega.BeTrue())
	probes = 1
	for i, step := range []struct {
		answer    int
		reachable bool
	}{
		{http.StatusInternalServerError, false}, {http.StatusOK, true}, {http.StatusServiceUnavailable, true}, {http.StatusForbidden, true},
		{http.StatusServiceUnavailable, true}, {http.StatusTooManyRequests, true}, {http.StatusBadGateway, true}, {http.StatusServiceUnavailable, false},
		{http.StatusOK, true},
	} {
		next(step.answer)
		g.Expect(p.Reachability().Reachable()).To(gomega.Equal(step.reachable), "after probe %d", i)
	}
	g.Expect(p.Reachability().Since).To(gomega.Equal(clock.Now()), "the present answers began with the last probe")
	stop()
	g.Eventually(ended).Should(gomega.Receive(gomega.BeNil()))
}

func TestProberOfUnreachableServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	if probe(t.Context(), http.DefaultClient, url+"/readyz") {
		t.Error("takes a closed port for an answer")
	}
}
