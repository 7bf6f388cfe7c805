// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminUser is the user who may do everything, as a member of system:masters.
const adminUser = "kubernetes-admin"

// tokenSeconds is the requested validity of a ServiceAccount token: longer than
// any test or demonstration.
const tokenSeconds = 7 * 24 * 3600

// Endpoint returns where the API server listens.
func (c *ControlPlane) Endpoint() (host string, port int32) {
	return loopback, int32(c.apiServer.port.number)
}

// CA returns the certificate authority of the cluster, in PEM.
func (c *ControlPlane) CA() []byte {
	return slices.Clone(c.pki.cluster.keyPair.cert)
}

// ServingCertificate returns what the API server proves itself with, for whatever is to stand
// before it on loopback.
func (c *ControlPlane) ServingCertificate() (tls.Certificate, error) {
	return tls.X509KeyPair(c.pki.apiServer.cert, c.pki.apiServer.key)
}

// AuditLog returns the path of the audit log, which exists if
// Options.AuditPolicy was set.
func (c *ControlPlane) AuditLog() string {
	return c.file("audit.log")
}

// AdminConfig returns a configuration for a client that may do everything and
// does not limit its own rate.
func (c *ControlPlane) AdminConfig() *rest.Config {
	return &rest.Config{
		Host: c.server(),
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.CA(),
			CertData: slices.Clone(c.pki.admin.cert),
			KeyData:  slices.Clone(c.pki.admin.key),
		},
	}
}

// AdminKubeconfig returns a kubeconfig for a user who may do everything.
func (c *ControlPlane) AdminKubeconfig() []byte {
	return slices.Clone(c.adminKubeconfig)
}

// Kubeconfig returns a kubeconfig with a fresh client certificate that names
// user and groups. RBAC decides their permissions.
func (c *ControlPlane) Kubeconfig(user string, groups ...string) ([]byte, error) {
	if user == "" {
		return nil, errors.New("making a kubeconfig: the user has no name")
	}
	pair, err := c.pki.cluster.issue(subject{name: user, groups: groups})
	if err != nil {
		return nil, fmt.Errorf("making a kubeconfig for %q: %w", user, err)
	}
	return c.kubeconfig(clientCertificate(user, pair))
}

// ServiceAccountKubeconfig returns a kubeconfig with a token of an existing
// ServiceAccount.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return nil, err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return c.kubeconfig(name, &clientcmdapi.AuthInfo{Token: answer.Status.Token})
}

// server returns the URL of the API server.
func (c *ControlPlane) server() string {
	return "https://" + c.apiServer.port.address()
}

// clientCertificate configures user to authenticate with pair.
func clientCertificate(user string, pair keyPair) (string, *clientcmdapi.AuthInfo) {
	return user, &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
}

// kubeconfig returns a kubeconfig of this cluster for user.
func (c *ControlPlane) kubeconfig(user string, proof *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.options.Name] = &clientcmdapi.Cluster{Server: c.server(), CertificateAuthorityData: c.CA()}
	config.AuthInfos[user] = proof
	config.Contexts[c.options.Name] = &clientcmdapi.Context{Cluster: c.options.Name, AuthInfo: user}
	config.CurrentContext = c.options.Name
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return raw, nil
}
