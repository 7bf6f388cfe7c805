// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig reads the kubeconfigs of workload clusters from their Secrets. Tenants write these Secrets, so it
// refuses what would make a manager read its own files, run programs, or connect to a server that it cannot verify.
package kubeconfig

import (
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/keysize"
	"drover.io/runtime/requesterror"
)

const (
	// secretSuffix follows the Cluster's name in the name of its kubeconfig Secret, by Cluster API's contract.
	secretSuffix = "-kubeconfig"
	// secretKey is where the kubeconfig is in the Secret's data.
	secretKey = "value"
)

// Problem is the kind of an [Error].
type Problem string

const (
	// Missing means that the Secret does not exist.
	Missing Problem = "Missing"
	// Unreadable means that the management cluster did not return the Secret.
	Unreadable Problem = "Unreadable"
	// Invalid means that the Secret has no kubeconfig, or one that is refused.
	Invalid Problem = "Invalid"
)

// Error is why the kubeconfig of a Cluster cannot be used, and what to do about it. It never quotes the Secret.
type Error struct {
	Problem Problem
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func invalid(format string, args ...any) *Error {
	return &Error{Invalid, requesterror.Truncate(fmt.Sprintf(format, args...))}
}

// Kubeconfig is what the Secret of a Cluster holds.
type Kubeconfig struct {
	// Content is the kubeconfig itself. It is secret.
	Content string
	// UID and ResourceVersion are those of the Secret.
	UID             types.UID
	ResourceVersion string
	// ClusterLabel is the value of the label by which a change of the Secret is noticed at once; empty without it.
	ClusterLabel string
}

// Read reads the kubeconfig of a Cluster. Its error is an [*Error]; after one that is Invalid the result has what
// the Secret has but for its content.
func Read(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (Kubeconfig, error) {
	key := SecretKey(cluster)
	secret := &corev1.Secret{}
	err := reader.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return Kubeconfig{}, &Error{Missing, fmt.Sprintf("Secret %q does not exist; create it with the kubeconfig in data.%s", key, secretKey)}
	case err != nil:
		return Kubeconfig{}, &Error{Unreadable, fmt.Sprintf("reading Secret %q from the management cluster: %s", key, requesterror.Describe(err))}
	}
	read := Kubeconfig{Content: string(secret.Data[secretKey]), UID: secret.UID, ResourceVersion: secret.ResourceVersion, ClusterLabel: secret.Labels[clusterv1.ClusterNameLabel]}
	if read.Content == "" {
		return read, invalid("Secret %q has no kubeconfig in data.%s", key, secretKey)
	}
	return read, nil
}

// SecretKey returns the key of the Secret that has the kubeconfig of a Cluster.
func SecretKey(cluster client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + secretSuffix}
}

// ClusterKey is the inverse of [SecretKey]. It returns false for a Secret that is no Cluster's kubeconfig by its name.
func ClusterKey(secret client.ObjectKey) (client.ObjectKey, bool) {
	name, found := strings.CutSuffix(secret.Name, secretSuffix)
	return client.ObjectKey{Namespace: secret.Namespace, Name: name}, found && name != ""
}

// Rules are what a manager accepts. The zero value accepts the least but for RequireCA.
type Rules struct {
	// AllowProxy accepts a proxy-url. By such a URL the author of the Secret makes the manager send plain text of their
	// choice to any host that it can reach.
	AllowProxy bool
	// AllowInsecureTLS accepts servers that are not verified, and plain HTTP.
	AllowInsecureTLS bool
	// RequireCA refuses a kubeconfig without certificate-authority-data.
	RequireCA bool
}

// RESTConfig turns a kubeconfig into a client configuration. Its error is an [*Error] that names the field and what to
// use instead.
func (r Rules) RESTConfig(content string) (*rest.Config, error) {
	if objection := objectionToSize([]byte(content)); objection != "" {
		return nil, invalid("kubeconfig: %s", objection)
	}
	parsed, err := clientcmd.Load([]byte(content))
	if err != nil {
		// The parser's error may quote the content, and that is secret.
		return nil, invalid("data.%s of the Secret is not a kubeconfig; `kubectl --kubeconfig <file> config view` shows why", secretKey)
	}
	current, found := parsed.Contexts[parsed.CurrentContext]
	if !found {
		return nil, invalid("kubeconfig: current-context %q is not in contexts", parsed.CurrentContext)
	}
	cluster := parsed.Clusters[current.Cluster]
	if cluster == nil {
		return nil, invalid("kubeconfig: context %q names cluster %q, which is not in clusters", parsed.CurrentContext, current.Cluster)
	}
	user := parsed.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, invalid("kubeconfig: context %q names user %q, which is not in users", parsed.CurrentContext, current.AuthInfo)
	}
	if objection := cmp.Or(objectionToUser(user), r.objectionToCluster(cluster)); objection != "" {
		return nil, invalid("kubeconfig: %s", objection)
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, invalid("kubeconfig: %v", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, invalid("kubeconfig: clusters[].cluster.server: %v", err)
	}
	if server.Scheme != "https" && !r.AllowInsecureTLS {
		return nil, invalid("kubeconfig: clusters[].cluster.server is %q, but must begin with https://", config.Host)
	}
	if len(server.Hostname()) > maxHost {
		return nil, invalid("kubeconfig: the host of clusters[].cluster.server has more than %d characters", maxHost)
	}
	if err := checkTLS(config); err != nil {
		return nil, invalid("kubeconfig: its CA, certificate or key is not valid: %v", err)
	}
	return config, nil
}

// checkTLS refuses certificates and keys that cannot be used, or would take long at each connection.
func checkTLS(config *rest.Config) error {
	err := cmp.Or(keysize.CheckCertificates(config.CAData), keysize.CheckCertificates(config.CertData), keysize.CheckPrivateKey(config.KeyData))
	if err == nil {
		_, err = rest.TLSConfigFor(config)
	}
	return err
}

// objectionToUser refuses what would run programs in the manager's process or read its files. A path could be that of its
// own ServiceAccount token, and would send it to the author of the kubeconfig.
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

func (r Rules) objectionToCluster(cluster *clientcmdapi.Cluster) string {
	switch {
	case cluster.CertificateAuthority != "":
		return fileObjection("clusters[].cluster.certificate-authority", "certificate-authority-data")
	case cluster.ProxyURL != "" && !r.AllowProxy:
		return "clusters[].cluster.proxy-url is refused, because the manager could be made to connect to any host by it; remove it, set the manager's own proxy (HTTPS_PROXY), or start the manager with --allow-kubeconfig-proxy"
	case cluster.InsecureSkipTLSVerify && !r.AllowInsecureTLS:
		return "clusters[].cluster.insecure-skip-tls-verify is refused, because any host on the way could read the credentials; use certificate-authority-data"
	case r.RequireCA && !hasCertificate(cluster.CertificateAuthorityData):
		return "clusters[].cluster.certificate-authority-data has no certificate, and the machines need the CA of the API server"
	default:
		return ""
	}
}

func hasCertificate(data []byte) bool {
	block, _ := pem.Decode(data)
	return block != nil
}

func fileObjection(field, instead string) string {
	return fmt.Sprintf("%s names a file, which the manager does not read; use %s", field, instead)
}
