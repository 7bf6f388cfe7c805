// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/kubevirt"
	"drover.io/runtime/envtest"
)

// TestAccounts: with the provider's own credentials, a machine reaches its own namespace only.
func TestAccounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec infrav1.KubeVirtMachineSpec
		want driver.Account
	}{
		"own credentials":                   {infrav1.KubeVirtMachineSpec{}, driver.Account{Region: "team"}},
		"own credentials, forged namespace": {infrav1.KubeVirtMachineSpec{Namespace: "kube-system"}, driver.Account{Region: "team"}},
		"a Secret":                          {infrav1.KubeVirtMachineSpec{CredentialsSecretName: "infra"}, driver.Account{SecretName: "infra", Region: "team"}},
		"a Secret and a namespace":          {infrav1.KubeVirtMachineSpec{CredentialsSecretName: "infra", Namespace: "vms"}, driver.Account{SecretName: "infra", Region: "vms"}},
	} {
		machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: test.spec}
		if diff := cmp.Diff(test.want, kubevirt.Cloud(kubevirt.Options{}).Account(machine)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		template := &infrav1.KubeVirtMachineTemplate{ObjectMeta: machine.ObjectMeta}
		template.Spec.Template.Spec = test.spec
		if diff := cmp.Diff(test.want, kubevirt.Cloud(kubevirt.Options{}).Account(template.Machine())); diff != "" {
			t.Errorf("%s, template (-want +got):\n%s", name, diff)
		}
	}
}

// TestKubeconfigsThatAreRefused: a kubeconfig of a tenant names no program, file or proxy of the provider's host, and no
// server without TLS.
func TestKubeconfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	valid, err := envtest.Kubeconfig(e.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"none":          "",
		"no kubeconfig": "]",
		"a program":     strings.Replace(string(valid), "  user:\n", "  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}\n", 1),
		"a token file":  strings.Replace(string(valid), "  user:\n", "  user:\n    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\n", 1),
		"a proxy":       strings.Replace(string(valid), "- cluster:\n", "- cluster:\n    proxy-url: http://169.254.169.254\n", 1),
		"no TLS":        strings.Replace(string(valid), "https://", "http://", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if content == string(valid) {
				t.Fatal("the kubeconfig was not changed, so this proves nothing")
			}
			_, err := kubevirt.Cloud(kubevirt.Options{}).Connect(t.Context(), driver.Account{SecretName: "infra", Region: e.namespace}, driver.Credentials{"value": []byte(content)})
			if !driver.IsUnauthorized(err) {
				t.Errorf("got %v, want an UnauthorizedError", err)
			}
		})
	}
	if _, err := kubevirt.Cloud(kubevirt.Options{}).Connect(t.Context(), driver.Account{Region: e.namespace}, nil); !driver.IsUnauthorized(err) {
		t.Errorf("without a cluster of its own: got %v, want an UnauthorizedError", err)
	}
	connected, err := kubevirt.Cloud(kubevirt.Options{}).Connect(t.Context(), driver.Account{SecretName: "infra", Region: e.namespace}, driver.Credentials{"value": valid})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connected.(driver.AccountIdentifier).AccountID(t.Context()); err != nil {
		t.Errorf("a valid kubeconfig: %v", err)
	}
	missing, err := kubevirt.Cloud(kubevirt.Options{}).Connect(t.Context(), driver.Account{SecretName: "infra", Region: "none"}, driver.Credentials{"value": valid})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsInvalidConfiguration(err) {
		t.Errorf("a namespace that does not exist: got %v, want an InvalidConfigurationError", err)
	}
}

// TestNothingOfProtobuf: the answers can be bounded before they are decoded.
func TestNothingOfProtobuf(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	options := e.options()
	next := options.Transport
	var accepted []string
	options.Transport = func(below http.RoundTripper) http.RoundTripper {
		wrapped := next(below)
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			accepted = append(accepted, r.Header.Get("Accept"))
			return wrapped.RoundTrip(r)
		})
	}
	connected, err := kubevirt.Cloud(options).Connect(t.Context(), driver.Account{Region: e.namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := connected.Delete(t.Context(), identity("1")); err != nil {
		t.Fatal(err)
	}
	for _, kinds := range accepted {
		if kinds == "" || strings.Contains(kinds, "protobuf") {
			t.Errorf("a request accepts %q", kinds)
		}
	}
	if len(accepted) < 3 {
		t.Errorf("only %d requests were made", len(accepted))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
