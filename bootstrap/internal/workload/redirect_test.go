// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"drover.io/runtime/egress"
)

func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 9)
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(inside.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(inside.URL, http.StatusFound))
	t.Cleanup(server.Close)
	connect := func() *Connection {
		config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)}}
		c, err := NewConnections(nil, clock.RealClock{}).connect(config, types.NamespacedName{Namespace: "team", Name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	_, core := connect().Core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	_, certificates := connect().Certificates.CertificateSigningRequests().Get(t.Context(), "n", metav1.GetOptions{})
	_, rbac := connect().RBAC.ClusterRoles().Get(t.Context(), "n", metav1.GetOptions{})
	for _, err := range []error{core, certificates, rbac} {
		if !errors.Is(err, egress.ErrRedirected) {
			t.Errorf("got %v", err)
		}
	}
	if len(reached) > 0 {
		t.Error("this process has called a host that the API server named")
	}
}
