// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const versionAnswer = `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`

// awaitVersion waits for an API server as a manager does, for another time.
func awaitVersion(t *testing.T, url string, atMost time.Duration) error {
	t.Helper()
	clients, err := coordinationclient.NewForConfig(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	return await(ctx, clients.RESTClient(), askVersion)
}

func TestAnAPIServerThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	text := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, test := range map[string]struct {
		server *httptest.Server
		want   string
	}{
		"refuses connections": {closed, "does not answer: dial: connect: connection refused; check"},
		"is silent":           {httptest.NewServer(http.HandlerFunc(silence)), "does not answer: no answer in time; check"},
		"is a website":        {httptest.NewServer(http.HandlerFunc(text)), "is no API server of Kubernetes; check"},
		"has no such path":    {httptest.NewServer(http.NotFoundHandler()), "does not answer: the server could not find the requested resource; check"},
		"is not trusted":      {httptest.NewTLSServer(http.HandlerFunc(text)), "does not answer: its certificate is not signed by the kubeconfig's certificate-authority-data; check"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer test.server.Close()
			if err := awaitVersion(t, test.server.URL, time.Second); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAManagerWaitsForAnAPIServerThatStarts(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(versionAnswer))
	}))
	defer server.Close()
	if err := awaitVersion(t, server.URL, time.Minute); err != nil || requests.Load() != 3 {
		t.Errorf("got %v after %d requests", err, requests.Load())
	}
}

func TestAnAPIServerThatRefusesCredentialsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{http.StatusUnauthorized: "does not accept the credentials", http.StatusForbidden: ""} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(status)
		}))
		defer server.Close()
		err := awaitVersion(t, server.URL, time.Minute)
		if requests.Load() != 1 || want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%d: got %v after %d requests, want %q", status, err, requests.Load(), want)
		}
	}
}

func TestKindsThatAreNotInstalledAreNamed(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/cluster.x-k8s.io/v1beta2" || requests.Add(1) < 2 {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	clients, err := coordinationclient.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	if err := await(t.Context(), clients.RESTClient(), kindsOf(kinds).ask); err != nil || requests.Load() != 2 {
		t.Errorf("kinds that are installed now: got %v after %d requests", err, requests.Load())
	}
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Group: "none.drover.io", Version: "v1"})
	err = kindsOf(kinds).ask(t.Context(), clients.RESTClient())
	if err == nil || !strings.HasPrefix(err.Error(), "has no kinds of none.drover.io/v1: apply the manifests of a release") {
		t.Errorf("got %v", err)
	}
	if got := kindsOf(scheme.Scheme); len(got) > 0 {
		t.Errorf("kinds of Kubernetes are asked for: %v", got)
	}
}

// TestLeasesAreChecked asks a real API server, as a user who may keep Leases in one namespace.
func TestLeasesAreChecked(t *testing.T) {
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	admin := server.Client(t)
	allowed, existing := server.Namespace(t), server.Namespace(t)
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: allowed, Name: "leases"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: allowed, Name: "leases"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leases"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "manager"}},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	limited := rest.CopyConfig(config)
	limited.Impersonate.UserName = "manager"
	for name, test := range map[string]struct {
		config    *rest.Config
		namespace string
		elect     string
		want      string
	}{
		"it exists":                             {config, existing, "true", ""},
		"it does not exist":                     {config, "no-such", "true", `--leader-election-namespace must be a namespace that exists, not "no-such": create it, or name another`},
		"it does not exist for claims":          {config, "no-such", "false", `--leader-election-namespace must be a namespace that exists, not "no-such": create it, or name another`},
		"the manager may":                       {limited, allowed, "true", ""},
		"the manager may not":                   {limited, existing, "true", `--leader-election-namespace must be a namespace in which the manager may create Leases, not "` + existing + `": leases`},
		"the manager may not, and needs no own": {limited, existing, "false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse("program", []string{"--leader-election-namespace=" + test.namespace, "--leader-elect=" + test.elect}, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = o.checkCluster(t.Context(), "drover-test", test.config, scheme.Scheme)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	leases := &coordinationv1.LeaseList{}
	if err := admin.List(t.Context(), leases, client.InNamespace(existing)); err != nil || len(leases.Items) > 0 {
		t.Errorf("the check leaves %d Leases, %v", len(leases.Items), err)
	}
}

// TestNewExplainsWhatIsWrongWithTheKubeconfig is not parallel, as the environment names the kubeconfig.
func TestNewExplainsWhatIsWrongWithTheKubeconfig(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const way = "; name a kubeconfig with --kubeconfig or the environment variable KUBECONFIG"
	config := func(context, cluster, server string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: " + context + "\ncontexts: [{name: x, context: {cluster: " + cluster +
			", user: u}}]\nclusters: [{name: c, cluster: {server: \"" + server + "\"}}]\nusers: [{name: u, user: {token: t}}]\n"
	}
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"is no YAML":                  {"a: [", []string{"PATH", "yaml"}},
		"is empty":                    {" ", []string{"\"PATH\" has no cluster in its current context" + way}},
		"has no such context":         {config("other", "c", "https://127.0.0.1:1"), []string{"context was not found for specified context: other", way}},
		"has no such cluster":         {config("x", "other", "https://127.0.0.1:1"), []string{"has no cluster in its current context", way}},
		"has a server that is no URL": {config("x", "c", "https://a b"), []string{"reading the kubeconfig of the management cluster", `"https://a b"`}},
		"does not exist":              {"", []string{"\"PATH\" has no cluster in its current context" + way}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if test.content != "" {
				if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("KUBECONFIG", path)
			o, err := Parse("program", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
			for _, want := range test.want {
				want = strings.ReplaceAll(want, "PATH", path)
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, want one line with %s", err, want)
				}
			}
		})
	}
}
