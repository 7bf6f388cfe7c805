// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/runtime/envtest"
)

// server is the management cluster of the tests that need a real one.
var server = &envtest.Server{}

func TestMain(m *testing.M) { envtest.Main(m, server.Stop) }

// TestMetricsAreForThoseWhoMayGetThem reads metrics without a user, as a service account without permission, and as one with.
func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	t.Parallel()
	o, err := Parse("program", []string{"--metrics-bind-address=127.0.0.1:0", "--metrics-secure"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := serveMetrics(t, o)
	c := server.Client(t)
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"without a token":       {"", http.StatusUnauthorized},
		"with what is no token": {"x.y.z", http.StatusInternalServerError}, // as the filter answers an error of the review
		"without permission":    {tokenOf(t, c, "stranger"), http.StatusForbidden},
		"with permission":       {permitMetrics(t, c, "reader", url), http.StatusOK},
	} {
		if got := getMetrics(t, url, test.token); got != test.want {
			t.Errorf("%s the status is %d, want %d", name, got, test.want)
		}
	}
}

func TestMetricsAreOpenByDefault(t *testing.T) {
	t.Parallel()
	o, err := Parse("program", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.metricsOptions(); got.SecureServing || got.FilterProvider != nil || got.BindAddress != ":8085" {
		t.Errorf("%+v", got)
	}
}

// serveMetrics starts the endpoint and returns its URL.
func serveMetrics(t *testing.T, o *Options) string {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := metricsserver.NewServer(o.metricsOptions(), config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- endpoint.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bound := endpoint.(interface{ GetBindAddr() string })
	for deadline := time.Now().Add(time.Minute); bound.GetBindAddr() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the endpoint does not listen")
		}
	}
	return "https://" + bound.GetBindAddr() + "/metrics"
}

func getMetrics(t *testing.T, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is made by the endpoint itself
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

// tokenOf returns a token of a new service account.
func tokenOf(t *testing.T, c client.Client, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := c.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// permitMetrics permits a new service account to get metrics, and returns its token once the API server permits it.
func permitMetrics(t *testing.T, c client.Client, name, url string) string {
	t.Helper()
	token := tokenOf(t, c, name)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); getMetrics(t, url, token) != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the permission does not count")
		}
	}
	return token
}
