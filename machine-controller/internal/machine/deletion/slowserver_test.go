// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

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

	"drover.io/runtime/envtest"
)

// TestNodeIsNotLeftBehindBecauseTheTurnOfItsDeletionNeverCame has an API server that takes long for the Pods of other Nodes,
// so that it gets one request at a time, and deletes Nodes at once.
func TestNodeIsNotLeftBehindBecauseTheTurnOfItsDeletionNeverCame(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	hung, ended := make(chan struct{}, 10), make(chan struct{})
	e.slow(hung, ended)
	connection, err := e.workloads.Get(e.state.clusterKey())
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{}, 2)
	for range 2 { // the second finds out whether it is still slow
		go func() {
			_ = connection.Client().List(t.Context(), &corev1.PodList{})
			answered <- struct{}{}
		}()
		<-hung
		time.Sleep(2100 * time.Millisecond)
	}
	step := &nodeStep{machines: e.client, workloads: e.workloads, events: &recorder{e.events}, clock: e.clock}
	for range 3 {
		if progress, err := step.run(t.Context(), e.state); progress.Done || progress.Message == "" || err != nil {
			t.Fatalf("progress %+v, error %v", progress, err)
		}
		e.clock.SetTime(e.clock.Now().Add(time.Minute))
	}
	close(ended)
	<-answered
	<-answered
	e.eventually("the Node to be deleted", func() bool {
		progress, err := step.run(t.Context(), e.state)
		return progress == done && err == nil
	})
	if err := e.client.Get(t.Context(), client.ObjectKeyFromObject(e.state.Node), &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is left behind: %v", err)
	}
}

// slow gives the Cluster a kubeconfig to an API server that answers lists of all Pods only when ended is closed.
func (e *environment) slow(hung chan<- struct{}, ended <-chan struct{}) {
	e.Helper()
	e.behind(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path == "/api/v1/pods" {
			hung <- struct{}{}
			<-ended
		}
		return true
	})
}

// behind gives the Cluster a kubeconfig to an API server behind a proxy, which forwards the requests for which the function returns
// true.
func (e *environment) behind(forwards func(http.ResponseWriter, *http.Request) bool) {
	e.Helper()
	admin, err := apiServer.Start()
	if err != nil {
		e.Fatal(err)
	}
	target, err := url.Parse(admin.Host)
	if err != nil {
		e.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(target)
	through.FlushInterval = -1
	if through.Transport, err = rest.TransportFor(admin); err != nil {
		e.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if forwards(response, request) {
			through.ServeHTTP(response, request)
		}
	}))
	e.Cleanup(server.CloseClientConnections)
	e.useKubeconfig(&rest.Config{
		Host: server.URL, BearerToken: "unused",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	})
}

// useKubeconfig replaces the kubeconfig of the Cluster, and waits until it is used.
func (e *environment) useKubeconfig(config *rest.Config) {
	e.Helper()
	before, err := e.workloads.Get(e.state.clusterKey())
	if err != nil {
		e.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := e.client.Get(e.Context(), client.ObjectKey{Namespace: e.state.Machine.Namespace, Name: "c-kubeconfig"}, secret); err != nil {
		e.Fatal(err)
	}
	if secret.Data["value"], err = envtest.Kubeconfig(config); err != nil {
		e.Fatal(err)
	}
	if err := e.client.Update(e.Context(), secret); err != nil {
		e.Fatal(err)
	}
	e.eventually("the new kubeconfig to be used", func() bool {
		now, err := e.workloads.Get(e.state.clusterKey())
		return err == nil && now != before
	})
}
