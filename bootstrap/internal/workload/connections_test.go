// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/runtime/envtest"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/workload"
)

var cluster = client.ObjectKey{Namespace: "team", Name: "c"}

// serve returns a server with the kubeconfig of it.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	content, err := envtest.Kubeconfig(&rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)}})
	if err != nil {
		t.Fatal(err)
	}
	return server, content
}

func answerJSON(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(content))
	}
}

func secretOf(content []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-kubeconfig", UID: "u"}, Data: map[string][]byte{"value": content}}
}

func TestConnectionIsKeptWhileItsSecretStays(t *testing.T) {
	t.Parallel()
	server, content := serve(t, answerJSON(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`))
	secret := secretOf(content)
	reader := fake.NewClientBuilder().WithObjects(secret).Build()
	connections := NewConnections(reader, clock.RealClock{})
	get := func() *Connection {
		t.Helper()
		c, err := connections.Get(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if node, err := first.Core.Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil || node.Name != "n" {
		t.Fatalf("got %v, %v", node, err)
	}
	if first.Server.URL != server.URL || string(first.Server.CA) != string(certificate(server)) || first.Server.TLSServerName != "" {
		t.Errorf("the server is %+v", first.Server)
	}
	if get() != first {
		t.Error("another connection is made for the same Secret")
	}
	read := &corev1.Secret{}
	if err := reader.Get(t.Context(), client.ObjectKeyFromObject(secret), read); err != nil {
		t.Fatal(err)
	}
	read.Annotations = map[string]string{"rotated": "true"}
	if err := reader.Update(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	second := get()
	if second == first {
		t.Error("the connection of an earlier version of the Secret is kept")
	}
	if _, err := first.Core.Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
		t.Errorf("the earlier connection cannot be used any more: %v", err)
	}
	connections.Remove(cluster)
	connections.Remove(cluster)
	if get() == second {
		t.Error("a connection that was dropped is used again")
	}
}

func TestConnectionsReportKubeconfigsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, good := serve(t, answerJSON("{}"))
	proxied := []byte(strings.Replace(string(good), "server:", "proxy-url: http://proxy.example:3128\n    server:", 1))
	for name, test := range map[string]struct {
		secret     *corev1.Secret
		allowProxy bool
		want       kubeconfig.Problem
	}{
		"none":               {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "other"}}, false, kubeconfig.Missing},
		"an empty one":       {secretOf(nil), false, kubeconfig.Invalid},
		"one with a proxy":   {secretOf(proxied), false, kubeconfig.Invalid},
		"a proxy if allowed": {secretOf(proxied), true, ""},
		"one without a CA":   {secretOf([]byte(strings.ReplaceAll(string(good), "certificate-authority-data", "x"))), false, kubeconfig.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := NewConnections(fake.NewClientBuilder().WithObjects(test.secret).Build(), clock.RealClock{})
			connections.AllowProxy = test.allowProxy
			_, err := connections.Get(t.Context(), cluster)
			bad, _ := errors.AsType[*kubeconfig.Error](err)
			if bad == nil != (test.want == "") || bad != nil && bad.Problem != test.want || bad == nil && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestUnreadableSecretIsNoProblemOfTheKubeconfig: it is tried again, and the connection stays.
func TestUnreadableSecretIsNoProblemOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	_, content := serve(t, answerJSON("{}"))
	fails := false
	reader := fake.NewClientBuilder().WithObjects(secretOf(content)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if fails {
				return errors.New("boom")
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	connections := NewConnections(reader, clock.RealClock{})
	first, err := connections.Get(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	fails = true
	_, err = connections.Get(t.Context(), cluster)
	if _, bad := errors.AsType[*kubeconfig.Error](err); err == nil || bad || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v", err)
	}
	fails = false
	if again, err := connections.Get(t.Context(), cluster); err != nil || again != first {
		t.Errorf("the connection was replaced, %v", err)
	}
}

func TestClassifyNamesWhatToApply(t *testing.T) {
	t.Parallel()
	_, content := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status := map[string]int{"/api/v1/nodes/forbidden": http.StatusForbidden, "/api/v1/nodes/unauthorized": http.StatusUnauthorized, "/api/v1/nodes/none": http.StatusNotFound}[r.URL.Path]
		reason := http.StatusText(status)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + strings.ReplaceAll(reason, " ", "") + `","message":"no","code":` + map[int]string{403: "403", 401: "401", 404: "404"}[status] + `}`))
	})
	c, err := NewConnections(fake.NewClientBuilder().WithObjects(secretOf(content)).Build(), clock.RealClock{}).Get(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	host := "API server " + c.Server.URL
	for node, want := range map[string]workload.Failure{
		"forbidden":    {Kind: workload.Forbidden, Message: host + ": no: apply config/workload of the bootstrap controller there as its administrator"},
		"unauthorized": {Kind: workload.Unauthorized, Message: host + " refuses the credentials in the kubeconfig; renew them in the Secret"},
		"none":         {Kind: workload.Other, Message: host + ": no"},
	} {
		_, err := c.Core.Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if diff := cmp.Diff(want, c.Classify(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node, diff)
		}
		if c.RetryAfter() != 0 {
			t.Errorf("%s: an answer pauses the connection", node)
		}
	}
}

func TestChecksAreDuePeriodically(t *testing.T) {
	t.Parallel()
	_, content := serve(t, answerJSON("{}"))
	fakeClock := clocktesting.NewFakeClock(time.Now())
	c, err := NewConnections(fake.NewClientBuilder().WithObjects(secretOf(content)).Build(), fakeClock).Get(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if !c.CheckDue("a") {
		t.Error("the first check is not due")
	}
	c.MarkChecked("a", time.Minute)
	if c.CheckDue("a") || !c.CheckDue("b") {
		t.Error("a check is due again at once, or another is not")
	}
	fakeClock.Step(time.Minute)
	if !c.CheckDue("a") {
		t.Error("the check is not due after its period")
	}
}

// TestConnectionIsLogged: one line each time that it begins to answer, or ceases to.
func TestConnectionIsLogged(t *testing.T) {
	t.Parallel()
	var lines []string
	fakeClock := clocktesting.NewFakeClock(time.Now())
	b := &breaker{clock: fakeClock, log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})}
	for _, step := range []struct {
		err  error
		want string
	}{
		{errBoom, `"level"=1 "msg"="could not connect to workload cluster" "message"="boom" "after"="5s"`},
		{errBoom, `"level"=1 "msg"="could not connect to workload cluster" "message"="boom" "after"="10s"`},
		{nil, `"level"=0 "msg"="connected to workload cluster"`},
		{nil, ""},
		{errBoom, `"level"=0 "msg"="disconnected from workload cluster" "message"="boom" "after"="5s"`},
		{errBoom, `"level"=1 "msg"="could not connect to workload cluster" "message"="boom" "after"="10s"`},
		{nil, `"level"=0 "msg"="connected to workload cluster"`},
	} {
		lines = nil
		b.note(step.err)
		b.note(step.err) // calls that ran together
		if got := strings.Join(lines, "\n"); got != step.want {
			t.Errorf("after %v the log is %q, want %q", step.err, got, step.want)
		}
		fakeClock.Step(b.remaining())
	}
}
