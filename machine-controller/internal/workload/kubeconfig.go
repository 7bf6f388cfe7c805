// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// kubeconfigSuffix follows the Cluster's name in the name of its kubeconfig Secret.
	kubeconfigSuffix = "-kubeconfig"
	// kubeconfigKey is where the kubeconfig is in the Secret's data.
	kubeconfigKey = "value"
)

// kubeconfig is what the Secret held at one resourceVersion.
type kubeconfig struct {
	content         string
	resourceVersion string
}

// readKubeconfig reads the kubeconfig Secret of a Cluster.
func readKubeconfig(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (kubeconfig, *failure) {
	key := kubeconfigSecret(cluster)
	secret := &corev1.Secret{}
	err := reader.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return kubeconfig{}, failed(ReasonKubeconfigMissing, "Secret %q does not exist; create it with the kubeconfig in data.%s", key, kubeconfigKey)
	case err != nil:
		return kubeconfig{}, failed(ReasonKubeconfigUnreadable, "reading Secret %q from the management cluster: %s", key, describe(err))
	}
	read := kubeconfig{content: string(secret.Data[kubeconfigKey]), resourceVersion: secret.ResourceVersion}
	if read.content == "" {
		return read, failed(ReasonKubeconfigInvalid, "Secret %q has no kubeconfig in data.%s", key, kubeconfigKey)
	}
	return read, nil
}

func kubeconfigSecret(cluster client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix}
}

// clusterOfSecret is the inverse of kubeconfigSecret; it reports false for a
// Secret that is no Cluster's kubeconfig by its name.
func clusterOfSecret(secret client.ObjectKey) (client.ObjectKey, bool) {
	name, found := strings.CutSuffix(secret.Name, kubeconfigSuffix)
	return client.ObjectKey{Namespace: secret.Namespace, Name: name}, found && name != ""
}

// restConfig turns a kubeconfig into a client configuration, or says which of
// its fields cannot be accepted and what to use instead.
func (o *Options) restConfig(content string) (*rest.Config, *failure) {
	parsed, err := clientcmd.Load([]byte(content))
	if err != nil {
		// The parser's error may quote the content, and that is secret.
		return nil, failed(ReasonKubeconfigInvalid, "data.%s of the Secret is not a kubeconfig; `kubectl --kubeconfig <file> config view` says why", kubeconfigKey)
	}
	current, found := parsed.Contexts[parsed.CurrentContext]
	if !found {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: current-context %q is not in contexts", parsed.CurrentContext)
	}
	cluster, found := parsed.Clusters[current.Cluster]
	if !found {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: context %q names cluster %q, which is not in clusters", parsed.CurrentContext, current.Cluster)
	}
	user := parsed.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: context %q names user %q, which is not in users", parsed.CurrentContext, current.AuthInfo)
	}
	if objection := cmp.Or(objectionToUser(user), o.objectionToCluster(cluster)); objection != "" {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %s", objection)
	}

	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: clusters[].cluster.server: %v", err)
	}
	if server.Scheme != "https" && !o.AllowInsecureTLS {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: clusters[].cluster.server is %q, but must begin with https://", config.Host)
	}
	config.UserAgent = o.UserAgent
	return config, nil
}

// objectionToUser refuses what would run programs in our process or read our
// files. A path could be that of our own ServiceAccount token, and would send
// it to whoever wrote the kubeconfig.
func objectionToUser(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil:
		return "users[].user.exec runs a program, which is not supported; use token or client-certificate-data and client-key-data"
	case user.AuthProvider != nil:
		return "users[].user.auth-provider is not supported; use token or client-certificate-data and client-key-data"
	case user.TokenFile != "":
		return fileObjection("users[].user.tokenFile", "token")
	case user.ClientCertificate != "":
		return fileObjection("users[].user.client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return fileObjection("users[].user.client-key", "client-key-data")
	default:
		return ""
	}
}

func (o *Options) objectionToCluster(cluster *clientcmdapi.Cluster) string {
	switch {
	case cluster.CertificateAuthority != "":
		return fileObjection("clusters[].cluster.certificate-authority", "certificate-authority-data")
	case o.AllowInsecureTLS:
		return ""
	case cluster.InsecureSkipTLSVerify:
		return "clusters[].cluster.insecure-skip-tls-verify is refused, because it gives the credentials to anybody on the way; use certificate-authority-data"
	default:
		return ""
	}
}

func fileObjection(field, instead string) string {
	return fmt.Sprintf("%s names a file, which the manager does not read; use %s", field, instead)
}
