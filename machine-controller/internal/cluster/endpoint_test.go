// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/testenv"
)

// TestEndpointOfAProviderDoesNotStopTheCluster writes to a Cluster what its provider reports: hosts with a scheme, as that of
// EKS does, and what no Cluster can have.
func TestEndpointOfAProviderDoesNotStopTheCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		host string
		port int64
		want clusterv1.APIEndpoint
	}{
		"a name":          {"api.example.com", 6443, clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}},
		"an IPv4 address": {"192.0.2.1", 6443, clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}},
		"an IPv6 address": {"2001:db8::1", 6443, clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 6443}},
		"a scheme":        {"https://ABC.gr7.us-east-1.eks.amazonaws.com", 443, clusterv1.APIEndpoint{Host: "ABC.gr7.us-east-1.eks.amazonaws.com", Port: 443}},
		"a slash":         {"https://api.example.com/", 443, clusterv1.APIEndpoint{Host: "api.example.com", Port: 443}},
		"a path":          {host: "https://api.example.com/clusters/c", port: 443},
		"a port":          {host: "api.example.com:443", port: 443},
		"brackets":        {host: "[2001:db8::1]", port: 443},
		"a zone":          {host: "fe80::1%eth0", port: 443},
		"IPv4 in IPv6":    {host: "::ffff:192.0.2.1", port: 443},
		"half an address": {host: "192.0.2", port: 443},
		"a long name":     {host: strings.Repeat("a.", 127) + "a", port: 443},
		"a wrong port":    {host: "api.example.com", port: 70000},
		"nothing":         {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := server.Namespace(t)
			cluster := testenv.Cluster(namespace)
			cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneEndpoint = infraRef, clusterv1.APIEndpoint{}
			api := clientWith(t, namespace, cluster)
			before, p := cluster.DeepCopy(), &provider{object: fields("provisioned", true)}
			p.object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": test.host, "port": test.port}}
			if _, err := (infrastructure{adopter{p.client(), unchanged{}}, p.reader()}).run(t.Context(), &state{cluster: cluster}); err != nil {
				t.Fatal(err)
			}
			if err := patch.Main(t.Context(), api, before, cluster); err != nil {
				t.Error(err)
			}
			if got := cluster.Spec.ControlPlaneEndpoint; got != test.want {
				t.Errorf("the endpoint is %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestFailureDomainsOfAProviderDoNotStopTheStatus writes to a Cluster the failure domains that the API of its provider accepts.
func TestFailureDomainsOfAProviderDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	var many []any
	for i := range 200 {
		many = append(many, map[string]any{"name": fmt.Sprintf("z%03d", i)})
	}
	for name, test := range map[string]struct {
		reported []any
		want     int
	}{
		"a name twice": {[]any{map[string]any{"name": "z"}, map[string]any{"name": "y"}, map[string]any{"name": "z", "controlPlane": true}}, 2},
		"a long name":  {[]any{map[string]any{"name": strings.Repeat("z", 300)}, map[string]any{"name": "z"}}, 1},
		"no name":      {[]any{map[string]any{"name": ""}}, 0},
		"many":         {many, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := server.Namespace(t)
			cluster := testenv.Cluster(namespace)
			cluster.Spec.InfrastructureRef = infraRef
			api := clientWith(t, namespace, cluster)
			before, p := cluster.DeepCopy(), &provider{object: fields("provisioned", true)}
			p.object["status"].(map[string]any)["failureDomains"] = test.reported
			if _, err := (infrastructure{adopter{p.client(), unchanged{}}, p.reader()}).run(t.Context(), &state{cluster: cluster}); err != nil {
				t.Fatal(err)
			}
			if err := patch.Status(t.Context(), api, before, cluster); err != nil {
				t.Error(err)
			}
			if got := len(cluster.Status.FailureDomains); got != test.want {
				t.Errorf("there are %d failure domains, want %d", got, test.want)
			}
		})
	}
}
