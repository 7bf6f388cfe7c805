// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/httplimit"
)

// useKubeconfig makes a server the management cluster of the test.
func useKubeconfig(t *testing.T, server string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
	}, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

// TestNewConnectsAsTheFlagsHaveIt makes a manager, and reads by its uncached client.
func TestNewConnectsAsTheFlagsHaveIt(t *testing.T) {
	agents := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(versionAnswer))
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["get"]}]}`))
		case "/api/v1/namespaces/kube-system":
			agents <- r.UserAgent()
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`))
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	useKubeconfig(t, server.URL)
	o, err := Parse("program", []string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--kube-api-qps=7", "--kube-api-burst=9"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if config := mgr.GetConfig(); config.QPS != 7 || config.Burst != 9 || config.UserAgent != "drover-test" || config.Host != server.URL {
		t.Errorf("the client has %v requests per second, burst %d, user agent %q, server %q", config.QPS, config.Burst, config.UserAgent, config.Host)
	}
	c, err := UncachedClient(mgr)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, namespace); err != nil || namespace.UID != "u" {
		t.Errorf("got %q, %v", namespace.UID, err)
	}
	if agent := <-agents; agent != "drover-test" {
		t.Errorf("the user agent is %q", agent)
	}
}

// TestBoundedReaderDecodesNoLargeObject reads objects whose size a tenant chose.
func TestBoundedReaderDecodesNoLargeObject(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(versionAnswer))
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":[]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"g","versions":[{"groupVersion":"g/v1","version":"v1"}]}]}`))
		case "/apis/g/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"g/v1","resources":[{"name":"things","kind":"Thing","namespaced":true,"verbs":["get"]}]}`))
		case "/apis/g/v1/namespaces/ns/things/small":
			_, _ = w.Write([]byte(`{"kind":"Thing","apiVersion":"g/v1","metadata":{"name":"small"},"spec":{"x":"` + strings.Repeat("{},", 10_000) + `"}}`))
		case "/apis/g/v1/namespaces/ns/things/large":
			_, _ = w.Write([]byte(`{"kind":"Thing","apiVersion":"g/v1","metadata":{"name":"large"},"spec":{"x":[` + strings.Repeat("{},", 100_000) + `{}]}}`))
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	useKubeconfig(t, server.URL)
	o, err := Parse("program", []string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := BoundedReader(mgr, 1000)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("g/v1")
	object.SetKind("Thing")
	if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "small"}, object); err != nil || object.GetName() != "small" {
		t.Errorf("small: got %q, %v", object.GetName(), err)
	}
	err = reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "large"}, object)
	if _, refused := errors.AsType[*httplimit.TooManyElementsError](err); !refused {
		t.Errorf("large: got %v, want a refusal", err)
	}
}

func TestNewNamesHowToFindTheManagementCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	o, err := Parse("program", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig or the environment variable KUBECONFIG") {
		t.Errorf("got %v", err)
	}
}

func TestApplyKeepsTheProgramsOwnSettings(t *testing.T) {
	t.Parallel()
	o, err := Parse("program", []string{"--pprof-bind-address=:6060", "--leader-elect-lease-duration=30s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := o.apply("name", ctrl.Options{Scheme: scheme.Scheme, Client: client.Options{DryRun: new(true)}})
	if got.Scheme != scheme.Scheme || got.Client.DryRun == nil || !*got.Client.DryRun {
		t.Error("the program's own settings are lost")
	}
	if got.PprofBindAddress != ":6060" || got.Metrics.BindAddress != ":8085" || got.HealthProbeBindAddress != ":9440" || !got.LeaderElection {
		t.Errorf("settings are %+v", got)
	}
	if *got.LeaseDuration != o.LeaseDuration || *got.RenewDeadline != o.RenewDeadline || *got.RetryPeriod != o.RetryPeriod {
		t.Errorf("the Lease has %s, %s, %s", got.LeaseDuration, got.RenewDeadline, got.RetryPeriod)
	}
}

func TestOwnNamespaceOutsideOfAPod(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(podNamespace); err == nil {
		t.Skip("this is a pod")
	}
	if got := (&Options{}).OwnNamespace(); got != "kube-system" {
		t.Errorf("Leases are in %q", got)
	}
}

func TestIdentityHasTheHostName(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Identity()
	if err != nil || !strings.HasPrefix(got, host+"_") || len(got) != len(host)+1+36 {
		t.Errorf("got %q, %v", got, err)
	}
}
