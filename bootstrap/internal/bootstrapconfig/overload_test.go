// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
)

// TestOverloadedClusterIsGivenTime: an API server that answers 429 with Retry-After: 30.
func TestOverloadedClusterIsGivenTime(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":30}}`))
	}))
	defer server.Close()
	content, err := envtest.Kubeconfig(&rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-kubeconfig", UID: "u"}, Data: map[string][]byte{"value": content}}
	c, err := workload.NewConnections(fake.NewClientBuilder().WithObjects(secret).Build(), clock.RealClock{}).Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	var after time.Duration
	messages := map[string]bool{}
	for range 10 {
		_, err := c.Core.Secrets("kube-system").Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		unmet, is := errors.AsType[*waiting](toWaiting(c, err))
		if !is {
			t.Fatalf("err = %v", err)
		}
		after, messages[unmet.message] = unmet.after, true
	}
	if after < 25*time.Second || after > 30*time.Second {
		t.Errorf("reconciled again after %s, want 30s", after)
	}
	if calls.Load() != 1 || len(messages) != 1 {
		t.Errorf("%d calls were made, with the messages %v", calls.Load(), messages)
	}
}
