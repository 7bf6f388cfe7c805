// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		"a program":          {user(clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}}), "users[].user.exec"},
		"an auth provider":   {user(clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc"}}), "users[].user.auth-provider"},
		"a token file":       {user(clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"}), "users[].user.tokenFile"},
		"a certificate file": {user(clientcmdapi.AuthInfo{ClientCertificate: "/c"}), "users[].user.client-certificate"},
		"a key file":         {user(clientcmdapi.AuthInfo{ClientKey: "/k"}), "users[].user.client-key"},
		"a CA file":          {cluster(clientcmdapi.Cluster{Server: "https://a", CertificateAuthority: "/ca"}), "clusters[].cluster.certificate-authority"},
		"unverified TLS":     {cluster(clientcmdapi.Cluster{Server: "https://a", InsecureSkipTLSVerify: true}), "insecure-skip-tls-verify"},
		"plain HTTP":         {cluster(clientcmdapi.Cluster{Server: "http://a"}), "clusters[].cluster.server"},
		"no scheme":          {cluster(clientcmdapi.Cluster{Server: "a:6443"}), "clusters[].cluster.server"},
		"an unknown context": {func(c *clientcmdapi.Config) { c.CurrentContext = "y" }, "current-context"},
		"an unknown cluster": {func(c *clientcmdapi.Config) { c.Contexts["x"].Cluster = "y" }, `cluster "y"`},
		"an unknown user":    {func(c *clientcmdapi.Config) { c.Contexts["x"].AuthInfo = "y" }, `user "y"`},
		"half a key pair":    {user(clientcmdapi.AuthInfo{ClientCertificateData: []byte("x")}), "client-key-data"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, failure := (&Options{}).restConfig(kubeconfigWith(t, test.change))
			if failure == nil || failure.reason != ReasonKubeconfigInvalid || !strings.Contains(failure.message, test.names) {
				t.Errorf("got %v, want one that names %q", failure, test.names)
			}
		})
	}
}

func TestRESTConfigAccepts(t *testing.T) {
	t.Parallel()
	insecure := func(c *clientcmdapi.Config) { c.Clusters["c"].InsecureSkipTLSVerify = true }
	tests := map[string]struct {
		options Options
		change  func(*clientcmdapi.Config)
		token   string
	}{
		"a token":                   {Options{}, func(*clientcmdapi.Config) {}, "secret-token"},
		"a proxy":                   {Options{}, func(c *clientcmdapi.Config) { c.Clusters["c"].ProxyURL = "http://proxy:3128" }, "secret-token"},
		"unverified TLS if allowed": {Options{AllowInsecureTLS: true}, insecure, "secret-token"},
		// client-go sends no credentials without TLS.
		"plain HTTP if allowed": {Options{AllowInsecureTLS: true}, func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "http://a" }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, failure := test.options.restConfig(kubeconfigWith(t, test.change))
			if failure != nil || config.BearerToken != test.token {
				t.Errorf("got %v, %v", config, failure)
			}
		})
	}
}

func TestRESTConfigNeverQuotesTheSecret(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"secret-token", "{secret-token", "users: secret-token", "users:\n- user: {client-key-data: secret-token}"} {
		_, failure := (&Options{}).restConfig(content)
		if failure == nil || failure.reason != ReasonKubeconfigInvalid {
			t.Errorf("%q was accepted: %v", content, failure)
		} else if strings.Contains(failure.message, "secret-token") {
			t.Errorf("the message quotes it: %s", failure.message)
		}
	}
}

func TestReadKubeconfig(t *testing.T) {
	t.Parallel()
	live := liveClient(t, managementServer(t).Config)
	tests := map[string]struct {
		data   map[string][]byte // nil for no Secret
		want   string
		reason Reason
	}{
		"finds it":              {map[string][]byte{"value": []byte("x")}, "x", ""},
		"misses the Secret":     {nil, "", ReasonKubeconfigMissing},
		"misses the key":        {map[string][]byte{"kubeconfig": []byte("x")}, "", ReasonKubeconfigInvalid},
		"finds an empty string": {map[string][]byte{"value": {}}, "", ReasonKubeconfigInvalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeconfig-"}}
			if err := live.Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			want := kubeconfig{content: test.want}
			if test.data != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "c-kubeconfig"}, Data: test.data}
				if err := live.Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				want.resourceVersion = secret.ResourceVersion
			}
			got, failure := readKubeconfig(t.Context(), live, client.ObjectKey{Namespace: namespace.Name, Name: "c"})
			reason := Reason("")
			if failure != nil {
				reason = failure.reason
			}
			if got != want || reason != test.reason {
				t.Errorf("got %v, %v", got, failure)
			}
		})
	}
}

func TestClusterOfSecret(t *testing.T) {
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
			got, found := clusterOfSecret(client.ObjectKey{Namespace: "n", Name: test.secret})
			if found != test.found || (found && got != client.ObjectKey{Namespace: "n", Name: test.want}) {
				t.Errorf("got %v, %v", got, found)
			}
		})
	}
}

func TestNotConnectedError(t *testing.T) {
	t.Parallel()
	connections := New(Options{})
	_, err := connections.Get(client.ObjectKey{Namespace: "n", Name: "c"})
	if !errors.Is(err, ErrNotConnected) || !IsNotConnected(err) {
		t.Errorf("%v is not ErrNotConnected", err)
	}
	var typed *NotConnectedError
	if !errors.As(err, &typed) {
		t.Fatalf("%v is no NotConnectedError", err)
	}
	want := &NotConnectedError{
		Cluster: client.ObjectKey{Namespace: "n", Name: "c"},
		Reason:  ReasonConnecting, Message: "no attempt to connect has begun yet",
	}
	if diff := cmp.Diff(want, typed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
