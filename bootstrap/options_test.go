// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want [3]bool // approve, allowProxy, trustReported
	}{
		"approves certificates by default":   {nil, [3]bool{true, false, false}},
		"leaves certificates to others":      {[]string{"--approve-certificates=false"}, [3]bool{false, false, false}},
		"accepts proxies in kubeconfigs":     {[]string{"--allow-kubeconfig-proxy"}, [3]bool{true, true, false}},
		"accepts addresses of guests":        {[]string{"--trust-reported-addresses"}, [3]bool{true, false, true}},
		"has the flags that all managers do": {[]string{"--worker-count=7", "--watch-filter=x"}, [3]bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parseOptions(test.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := [3]bool{o.approve, o.allowProxy, o.trustReported}; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if len(test.args) == 2 && (o.WorkerCount != 7 || o.WatchFilter != "x") {
				t.Errorf("the shared options are %+v", o.Options)
			}
		})
	}
	for _, args := range [][]string{{"--unknown"}, {"--worker-count=0"}, {"extra"}, {"--approve-certificates=false", "--trust-reported-addresses"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// TestManagerHasTheKindsThatItReconciles is not parallel: a manager sets the log of the process.
func TestManagerHasTheKindsThatItReconciles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`) }))
	defer server.Close()
	path := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
	}, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	o, err := parseOptions([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []schema.GroupVersionKind{
		bootstrapv1.GroupVersion.WithKind("BootstrapConfig"), clusterv1.GroupVersion.WithKind("Machine"), clusterv1.GroupVersion.WithKind("Cluster"),
		{Version: "v1", Kind: "Secret"},
	} {
		if !mgr.GetScheme().Recognizes(kind) {
			t.Errorf("%s is not known", kind)
		}
	}
	if agent := mgr.GetConfig().UserAgent; agent != name {
		t.Errorf("the user agent is %q", agent)
	}
}

func TestRunEndsWithTheErrorOfItsFlags(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"--worker-count=0"}); err == nil || !strings.Contains(err.Error(), "--worker-count") {
		t.Errorf("got %v", err)
	}
}

// TestCommandThatThereIsNot: the manager has flags only, so anything else was meant to be a command.
func TestCommandThatThereIsNot(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"Merge", "-f", "a.yaml"}, {"help"}, {"merg"}, {""}} {
		err := run(t.Context(), args)
		if want := fmt.Sprintf("there is no command %q: there is merge, which shows what BootstrapConfigs become; without a command, and with flags only, the manager is started", args[0]); fmt.Sprint(err) != want {
			t.Errorf("%q: err = %v, want %s", args, err, want)
		}
	}
}
