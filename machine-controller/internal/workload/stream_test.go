// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// before puts handle in front of an API server and returns the way to it.
// Requests for which handle returns false go through.
func before(t *testing.T, config *rest.Config, handle func(http.ResponseWriter, *http.Request) bool) *rest.Config {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	asAdmin, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(target)
	through.Transport = asAdmin
	through.FlushInterval = -1
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if !handle(response, request) {
			through.ServeHTTP(response, request)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{
		Host:            server.URL,
		BearerToken:     "unused",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
}

func TestConnectsToAnAPIServerThatNeverEndsAStreamedList(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	createNode(t, liveClient(t, a), "stream-1", "sim://stream")
	w := newEnvironment(t, func(o *Options) { o.SyncTimeout = 500 * time.Millisecond })
	config := before(t, a, func(response http.ResponseWriter, request *http.Request) bool {
		if !request.URL.Query().Has("sendInitialEvents") {
			return false
		}
		response.WriteHeader(http.StatusOK)
		response.(http.Flusher).Flush()
		<-request.Context().Done()
		return true
	})
	w.cluster("a", kubeconfigOf(t, config))
	if nodes := w.connected("a").NodesByProviderID("sim://stream"); len(nodes) != 1 {
		t.Errorf("got %v", nodes)
	}
}

func TestErrorAnswerOfAProbeIsAnAnswer(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, asIs)
	config := before(t, a, func(response http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path != "/api/v1/nodes/busy" {
			return false
		}
		// client-go would come back in an hour, and hold its caller till then.
		response.Header().Set("Retry-After", "3600")
		response.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	w.cluster("a", kubeconfigOf(t, config))
	connection := w.connected("a")
	if err := connection.Client().Get(t.Context(), client.ObjectKey{Name: "busy"}, &corev1.Node{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
}
