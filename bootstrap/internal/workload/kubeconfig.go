// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload connects to the workload cluster of a Cluster, with the kubeconfig in its Secret. A
// connection is small: no cache, no discovery, short timeouts, and while the API server does not answer, calls
// fail at once instead of each waiting for a timeout. It knows nothing of tokens and Nodes; the controllers of
// this module use it.
package workload

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// timeout is the longest that a worker waits for a workload cluster.
const timeout = 10 * time.Second

// KubeconfigError says why the kubeconfig of a Cluster cannot be used and what to do.
type KubeconfigError struct {
	Secret  string // the Secret's name
	Missing bool   // there is no such Secret, or not the key
	Detail  string
}

// Error names the Secret and what is wrong with it.
func (e *KubeconfigError) Error() string { return fmt.Sprintf("Secret %q: %s", e.Secret, e.Detail) }

// Server is what a kubeconfig says of the API server.
type Server struct {
	// URL is where this process reaches the API server.
	URL string

	// TLSServerName is what its certificate is checked against; empty is the host of the URL.
	TLSServerName string

	// CA is the PEM bundle that its certificate is verified with.
	CA []byte
}

// parse reads a kubeconfig. It refuses whatever would make this process read its own files, run programs or
// talk to a server that it cannot verify.
func parse(data []byte) (*rest.Config, Server, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		// The text of a parser may quote what it could not parse, and that may be a key.
		return nil, Server{}, fmt.Errorf("key \"value\" is not a kubeconfig")
	}
	current, found := config.Contexts[config.CurrentContext]
	if !found {
		return nil, Server{}, fmt.Errorf("its current-context %q does not exist in it", config.CurrentContext)
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, Server{}, fmt.Errorf("its current-context %q names a cluster or a user that does not exist in it", config.CurrentContext)
	}
	if err := check(cluster, user); err != nil {
		return nil, Server{}, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, Server{}, fmt.Errorf("it is not complete: a server, its CA and credentials are needed")
	}
	client.Timeout = timeout
	client.QPS, client.Burst = 50, 100
	client.UserAgent = "drover-bootstrap"
	client.Dial = (&net.Dialer{Timeout: timeout / 2, KeepAlive: 30 * time.Second}).DialContext
	return client, Server{URL: cluster.Server, TLSServerName: cluster.TLSServerName, CA: cluster.CertificateAuthorityData}, nil
}

func check(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	server, err := url.Parse(cluster.Server)
	switch {
	case err != nil || server.Scheme != "https" || server.Host == "":
		return fmt.Errorf("its server is not an https URL")
	case cluster.InsecureSkipTLSVerify:
		return fmt.Errorf("it has insecure-skip-tls-verify: give certificate-authority-data instead, machines need the CA as well")
	case cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
		return fmt.Errorf("it refers to files: give certificate-authority-data, client-certificate-data, client-key-data or token instead")
	case user.Exec != nil || user.AuthProvider != nil:
		return fmt.Errorf("it wants a program to log in: give client-certificate-data and client-key-data, or token, instead")
	}
	if block, _ := pem.Decode(cluster.CertificateAuthorityData); block == nil {
		return fmt.Errorf("it has no certificate-authority-data: machines need the CA of the API server")
	}
	return nil
}
