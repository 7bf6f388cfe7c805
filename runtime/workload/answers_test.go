// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestClassifyAnswersOfAServer makes real requests: each status and each body that is none of an API server has one kind, and a
// message without the URL of the request, or the host that stands for all servers.
func TestClassifyAnswersOfAServer(t *testing.T) {
	t.Parallel()
	status := func(code int, reason metav1.StatusReason) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: "because", Reason: reason, Code: int32(code),
			})
		}
	}
	plain := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    Kind
		message string
	}{
		"unauthorized":            {status(401, metav1.StatusReasonUnauthorized), Unauthorized, "refuses the credentials in the kubeconfig"},
		"unauthorized by a proxy": {plain(401, "text/html", "<html>"), Unauthorized, "refuses the credentials in the kubeconfig"},
		"forbidden":               {status(403, metav1.StatusReasonForbidden), Forbidden, "because"},
		"not found":               {status(404, metav1.StatusReasonNotFound), Other, "because"},
		"a conflict":              {status(409, metav1.StatusReasonConflict), Other, "because"},
		"an expired list":         {status(410, metav1.StatusReasonExpired), Other, "because"},
		"invalid":                 {status(422, metav1.StatusReasonInvalid), Other, "because"},
		"too many requests":       {status(429, metav1.StatusReasonTooManyRequests), Unavailable, "because"},
		"an internal error":       {status(500, metav1.StatusReasonInternalError), Unavailable, "because"},
		"unavailable":             {status(503, metav1.StatusReasonServiceUnavailable), Unavailable, "because"},
		"a timeout of the server": {status(504, metav1.StatusReasonTimeout), Unavailable, "because"},
		"a page of a portal":      {plain(200, "text/html", "<html>"), Unavailable, `the server answered with "text/html" instead of JSON`},
		"JSON that breaks off":    {plain(200, "application/json", `{"kind":"NamespaceList","items":[`), Other, ""},
		"a redirect somewhere else": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		}, Unavailable, "the server redirects, which is not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, config := serve(t, test.handler)
			clients, err := kubernetes.NewForConfigAndClient(open(t, Options{}, config).Config(), HTTPClient(open(t, Options{}, config), 0))
			if err != nil {
				t.Fatal(err)
			}
			var messages []string
			for range 2 {
				_, err = clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
				if err == nil {
					t.Fatal("there is no error")
				}
				got := Classify(server.URL, err)
				if got.Kind != test.want || !strings.Contains(got.Message, test.message) || !strings.HasPrefix(got.Message, "API server "+server.URL) {
					t.Errorf("got %+v of %v", got, err)
				}
				messages = append(messages, got.Message)
			}
			if messages[0] != messages[1] || strings.Contains(messages[0], metricsHost) || strings.Contains(messages[0], "\n") {
				t.Errorf("the messages are %q", messages)
			}
		})
	}
}

// TestServersBehindAPath has an API server below a path of a shared host, as managers of clusters have them: requests keep the
// path and their query, and the server sees its own name.
func TestServersBehindAPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/k8s/clusters/c-m-abcde", "/k8s/clusters/c-m-abcde/"} {
		seen := make(chan *http.Request, 1)
		server, config := serve(t, func(w http.ResponseWriter, request *http.Request) {
			seen <- request
			answerJSON(`{"kind":"NamespaceList","apiVersion":"v1","items":[]}`)(w, request)
		})
		config.Host += path
		transport := open(t, Options{}, config)
		clients, err := kubernetes.NewForConfigAndClient(transport.Config(), HTTPClient(transport, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "a=b", Limit: 5}); err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		request := <-seen
		if want := strings.TrimSuffix(path, "/") + "/api/v1/namespaces"; request.URL.Path != want || request.URL.Query().Get("labelSelector") != "a=b" || request.URL.Query().Get("limit") != "5" {
			t.Errorf("%q: the request is %s, want %s", path, request.URL, want)
		}
		if want := strings.TrimPrefix(server.URL, "https://"); request.Host != want || transport.Host() != config.Host {
			t.Errorf("%q: the host is %s, want %s, and that of the transport is %s", path, request.Host, want, transport.Host())
		}
	}
}
