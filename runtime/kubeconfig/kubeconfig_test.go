// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/keysize/keysizetest"
)

// kubeconfigWith returns a good kubeconfig after change.
func kubeconfigWith(t *testing.T, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "secret-token"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	change(config)
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRESTConfigRefuses(t *testing.T) {
	t.Parallel()
	user := func(u clientcmdapi.AuthInfo) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { c.AuthInfos["u"] = &u }
	}
	cluster := func(cl clientcmdapi.Cluster) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { c.Clusters["c"] = &cl }
	}
	tests := map[string]struct {
		change func(*clientcmdapi.Config)
		names  string
	}{
		"a program":             {user(clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}}), "users[].user.exec"},
		"an auth provider":      {user(clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc"}}), "users[].user.auth-provider"},
		"a token file":          {user(clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"}), "users[].user.tokenFile"},
		"a certificate file":    {user(clientcmdapi.AuthInfo{ClientCertificate: "/c"}), "users[].user.client-certificate"},
		"a key file":            {user(clientcmdapi.AuthInfo{ClientKey: "/k"}), "users[].user.client-key"},
		"a CA file":             {cluster(clientcmdapi.Cluster{Server: "https://a", CertificateAuthority: "/ca"}), "clusters[].cluster.certificate-authority"},
		"a proxy":               {cluster(clientcmdapi.Cluster{Server: "https://a", ProxyURL: "http://169.254.169.254"}), "clusters[].cluster.proxy-url"},
		"unverified TLS":        {cluster(clientcmdapi.Cluster{Server: "https://a", InsecureSkipTLSVerify: true}), "insecure-skip-tls-verify"},
		"plain HTTP":            {cluster(clientcmdapi.Cluster{Server: "http://a"}), "clusters[].cluster.server"},
		"no scheme":             {cluster(clientcmdapi.Cluster{Server: "a:6443"}), "clusters[].cluster.server"},
		"a long host":           {cluster(clientcmdapi.Cluster{Server: "https://" + strings.Repeat("a.", 127)}), "more than 253 characters"},
		"an unknown context":    {func(c *clientcmdapi.Config) { c.CurrentContext = "y" }, "current-context"},
		"an unknown cluster":    {func(c *clientcmdapi.Config) { c.Contexts["x"].Cluster = "y" }, `cluster "y"`},
		"an unknown user":       {func(c *clientcmdapi.Config) { c.Contexts["x"].AuthInfo = "y" }, `user "y"`},
		"a broken CA":           {cluster(clientcmdapi.Cluster{Server: "https://a", CertificateAuthorityData: []byte("x")}), "CA, certificate or key"},
		"a CA with a large key": {cluster(clientcmdapi.Cluster{Server: "https://a", CertificateAuthorityData: keysizetest.Certificate(t, 16384)}), "RSA key of 16384 bits"},
		"a large key of a user": {user(clientcmdapi.AuthInfo{ClientCertificateData: keysizetest.Certificate(t, 16384), ClientKeyData: []byte("x")}), "RSA key of 16384 bits"},
		"a long private key":    {user(clientcmdapi.AuthInfo{ClientCertificateData: []byte("x"), ClientKeyData: make([]byte, 32<<10)}), "private key has more than 16 KiB"},
		"half a key pair":       {user(clientcmdapi.AuthInfo{ClientCertificateData: []byte("x")}), "client-key-data"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Rules{}.RESTConfig(kubeconfigWith(t, test.change))
			if problemOf(err) != Invalid || !strings.Contains(err.Error(), test.names) {
				t.Errorf("got %v, want one that names %q", err, test.names)
			}
		})
	}
}

func TestRESTConfigAccepts(t *testing.T) {
	t.Parallel()
	insecure := func(c *clientcmdapi.Config) { c.Clusters["c"].InsecureSkipTLSVerify = true }
	tests := map[string]struct {
		rules  Rules
		change func(*clientcmdapi.Config)
		token  string
	}{
		"a token":                   {Rules{}, func(*clientcmdapi.Config) {}, "secret-token"},
		"a proxy if allowed":        {Rules{AllowProxy: true}, func(c *clientcmdapi.Config) { c.Clusters["c"].ProxyURL = "http://proxy:3128" }, "secret-token"},
		"unverified TLS if allowed": {Rules{AllowInsecureTLS: true}, insecure, "secret-token"},
		// client-go sends no credentials without TLS.
		"plain HTTP if allowed": {Rules{AllowInsecureTLS: true}, func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "http://a" }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := test.rules.RESTConfig(kubeconfigWith(t, test.change))
			if err != nil || config.BearerToken != test.token {
				t.Errorf("got %v, %v", config, err)
			}
		})
	}
}

func TestRESTConfigNeverQuotesTheSecret(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"secret-token", "{secret-token", "users: secret-token", "users:\n- user: {client-key-data: secret-token}"} {
		_, err := Rules{}.RESTConfig(content)
		if problemOf(err) != Invalid {
			t.Errorf("%q was accepted: %v", content, err)
		} else if strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the message quotes it: %s", err.Error())
		}
	}
}

func TestClusterKey(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secret string
		want   string
		found  bool
	}{
		"is a kubeconfig":     {"a-kubeconfig", "a", true},
		"is a CA":             {"a-ca", "", false},
		"is a suffix only":    {"-kubeconfig", "", false},
		"has a suffix inside": {"a-kubeconfig-b", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := ClusterKey(client.ObjectKey{Namespace: "n", Name: test.secret})
			if found != test.found || (found && got != client.ObjectKey{Namespace: "n", Name: test.want}) {
				t.Errorf("got %v, %v", got, found)
			}
		})
	}
}

func TestRESTConfigRequiresACA(t *testing.T) {
	t.Parallel()
	_, err := Rules{RequireCA: true}.RESTConfig(kubeconfigWith(t, func(*clientcmdapi.Config) {}))
	if problemOf(err) != Invalid || !strings.Contains(err.Error(), "certificate-authority-data") {
		t.Errorf("got %v", err)
	}
}

// problemOf is the kind of an error; empty for any but an [*Error].
func problemOf(err error) Problem {
	if bad, is := errors.AsType[*Error](err); is {
		return bad.Problem
	}
	return ""
}
