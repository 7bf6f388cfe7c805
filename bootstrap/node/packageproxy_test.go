// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestProxyIsLeftToTheHostWithoutPackages(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		in := minimal(system)
		in.Spec.Proxy.HTTP = "http://proxy.example.test"
		if script := string(describe(t, in).script()); strings.Contains(script, "proxy.example.test") {
			t.Errorf("%s: %s", system, script)
		}
	}
}

func TestAptHasTheProxyForEachScheme(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := strings.Replace(aptProxy(bootstrapv1.Proxy{
		HTTP: "http://a.example.test", HTTPS: "http://u:p%27x@b.example.test:3128", NoProxy: []string{"mirror.example.test", "*.example.test", ".example.test", "10.0.0.0/8", "[::1]"},
	}), "/etc/apt/apt.conf.d/", dir+"/", 1)
	out, err := bash(t, command+" && cat "+dir+"/90drover-proxy && stat -c %a "+dir+"/90drover-proxy")
	want := `Acquire::http::Proxy "http://a.example.test";
Acquire::http::Proxy::mirror.example.test "DIRECT";
Acquire::https::Proxy "http://u:p%27x@b.example.test:3128";
Acquire::https::Proxy::mirror.example.test "DIRECT";
600
`
	if err != nil || out != want {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestProxyThatSubscriptionManagerCannotUse(t *testing.T) {
	t.Parallel()
	_, err := subscriptionProxy(bootstrapv1.Proxy{HTTP: "http://%zz"})
	if invalid, is := errors.AsType[*InvalidError](err); !is || invalid.Field != "spec.proxy" {
		t.Errorf("got %v", err)
	}
	got, err := subscriptionProxy(bootstrapv1.Proxy{HTTPS: "https://proxy.example.test"})
	if err != nil || !strings.HasSuffix(got, "--server.proxy_port='443'") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSubscriptionManagerReachesHostsDirectly: a Satellite server is often one that the proxy does not reach.
func TestSubscriptionManagerReachesHostsDirectly(t *testing.T) {
	t.Parallel()
	got, err := subscriptionProxy(bootstrapv1.Proxy{HTTP: "http://proxy.example.test", NoProxy: []string{"satellite.example.test", "*.internal.example.test"}})
	if want := " --server.proxy_port='80' --server.no_proxy='satellite.example.test,*.internal.example.test'"; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("got %q, %v, want it to end with %s", got, err, want)
	}
}
