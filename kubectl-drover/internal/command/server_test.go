// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// kubeconfigOfHandler is a kubeconfig for a server on loopback.
func kubeconfigOfHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return kubeconfigOf(t, &rest.Config{Host: server.URL, BearerToken: "secret-token"})
}

// serves answers with objects, by their paths, and with 404 for other paths.
func serves(t *testing.T, objects map[string]any) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, found := objects[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	})
}

// olderServer has Cluster API as it was two versions ago.
func olderServer(t *testing.T) http.Handler {
	t.Helper()
	group := clusterv1.GroupVersion.Group
	before := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1beta1", Version: "v1beta1"}
	resources := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: before.GroupVersion}
	for kind, plural := range map[string]string{"Cluster": "clusters", "Machine": "machines", "MachineSet": "machinesets", "MachineDeployment": "machinedeployments"} {
		resources.APIResources = append(resources.APIResources, metav1.APIResource{Name: plural, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"get", "list", "patch"}})
	}
	return serves(t, map[string]any{
		"/version": version.Info{GitVersion: "v1.24.0"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/api/v1":  metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1"},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
			{Name: group, Versions: []metav1.GroupVersionForDiscovery{before}, PreferredVersion: before},
		}},
		"/apis/" + before.GroupVersion: resources,
	})
}

// TestOlderClusterAPIIsNamed has an API server whose kinds have an older version only: no command guesses, and each names both.
func TestOlderClusterAPIIsNamed(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfigOfHandler(t, olderServer(t))
	for want, commands := range map[string][][]string{
		"Machine":           {{"why", "machine/m"}, {"why", "node/n"}, {"describe", "machine", "m"}, {"logs", "m"}, {"drain", "--dry-run", "m"}, {"watch", "machine/m"}},
		"Cluster":           {{"why", "cluster/c"}, {"describe", "cluster", "c"}, {"orphans"}},
		"MachineDeployment": {{"why", "md/web"}, {"describe", "md", "web"}, {"freeze", "web"}, {"thaw", "web"}, {"rollout", "undo", "web"}, {"rollout", "history", "web"}, {"rollout", "status", "web"}, {"watch", "web"}, {"diff", "-f", "testdata/tree.yaml"}},
		"MachineSet":        {{"why", "machineset/s"}, {"freeze", "ms/s"}},
	} {
		text := "error: this cluster serves " + want + " only as cluster.x-k8s.io/v1beta1: its Cluster API is older than Drover, which needs cluster.x-k8s.io/v1beta2\n"
		for _, args := range commands {
			if got := run(t, kubeconfig, args...); got.code != ExitError || got.out != "" || got.err != text {
				t.Errorf("%v: exit code %d, output %q, error %q", args, got.code, got.out, got.err)
			}
		}
	}
	got := run(t, kubeconfig, "check")
	if got.code != ExitProblem || !strings.Contains(got.out, "ok       API server: answers, version v1.24.0\n") || !strings.Contains(got.out, "failed   kinds: ") || got.err != "" {
		t.Errorf("check: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

// TestServersThatAreNoAPIServers have proxies, portals and load balancers in the place of the API server.
func TestServersThatAreNoAPIServers(t *testing.T) {
	t.Parallel()
	portal := "<html><head><title>Sign in</title></head>" + strings.Repeat("<p>Welcome</p>\n", 10_000) + "</html>"
	answer := func(code int, kind, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body)) // a client that has gone does not matter
		})
	}
	for name, test := range map[string]struct {
		handler http.Handler
		flags   []string
		want    string
	}{
		"refuses the credentials": {
			answer(http.StatusUnauthorized, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`), nil, "You must be logged in to the server",
		},
		"is a portal":            {answer(http.StatusOK, "text/html", portal), nil, ""},
		"is a gateway":           {answer(http.StatusBadGateway, "text/html", portal), nil, ""},
		"answers with nothing":   {answer(http.StatusOK, "application/json", ""), nil, ""},
		"answers with no object": {answer(http.StatusOK, "application/json", `["a"]`), nil, ""},
		"answers too late":       {http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), []string{"--request-timeout=200ms"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := kubeconfigOfHandler(t, test.handler)
			for _, args := range [][]string{{"why", "machine/m"}, {"describe", "cluster", "c"}, {"orphans"}, {"freeze", "web"}} {
				got := run(t, kubeconfig, append(args, test.flags...)...)
				if got.code != ExitError || got.out != "" || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, test.want) {
					t.Errorf("%v: exit code %d, output %.300q, error %.300q", args, got.code, got.out, got.err)
				}
				if len(got.err) > 4096 || strings.Contains(got.err, "secret-token") {
					t.Errorf("%v: the error has %d bytes: %.300q", args, len(got.err), got.err)
				}
			}
			checked := run(t, kubeconfig, append([]string{"check"}, test.flags...)...)
			if checked.code == ExitOK || len(checked.out) > 8192 {
				t.Errorf("check: exit code %d, output %.300q, error %.300q", checked.code, checked.out, checked.err)
			}
		})
	}
}
