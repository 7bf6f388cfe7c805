// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/pem"
	"fmt"
	"net"
	"regexp"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Files that a host joins with. See the package comment.
const (
	caFile            = "/etc/kubernetes/pki/ca.crt"
	kubeletKubeconfig = "/etc/kubernetes/kubelet.conf"

	// bootstrapKubeconfig is not where the kubelet's packages have it: an image may start its kubelet before the script has it
	// read the unit of this project, and that one would join without the labels, the taints and the providerID.
	bootstrapKubeconfig = "/etc/drover/bootstrap-kubelet.conf"
)

// hostName is a name or an address as in a URL, without the brackets of IPv6, and portNumber a port.
var (
	hostName   = regexp.MustCompile(`^[A-Za-z0-9.:-]+$`)
	portNumber = regexp.MustCompile(`^[0-9]{1,5}$`)
)

func addTrust(n *Node, _ distribution, in Input) error {
	endpoint, serverName := reach(in)
	if host, port, err := net.SplitHostPort(endpoint); err != nil || !hostName.MatchString(host) || !portNumber.MatchString(port) {
		field := "spec.join.endpoint"
		if in.Spec.Join.Endpoint == "" {
			field = "Cluster.spec.controlPlaneEndpoint"
		}
		return invalid(field, "%q is not a host and a port: set spec.join.endpoint to one such as api.example.com:6443", endpoint)
	}
	if serverName != "" && !hostName.MatchString(serverName) {
		field := "spec.join.tlsServerName"
		if in.Spec.Join.TLSServerName == "" {
			field = "tls-server-name of the Cluster's kubeconfig"
		}
		return invalid(field, "%q is not the name of a host", serverName)
	}
	if block, _ := pem.Decode(in.CA); block == nil || block.Type != "CERTIFICATE" {
		return invalid("certificate-authority-data of the Cluster's kubeconfig", "does not begin with a PEM certificate")
	}
	cluster := &clientcmdapi.Cluster{Server: "https://" + endpoint, TLSServerName: serverName}
	byKubeadm := in.Spec.Join.Method == bootstrapv1.JoinKubeadm
	if byKubeadm {
		cluster.CertificateAuthorityData = in.CA
	} else {
		cluster.CertificateAuthority = caFile
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "bootstrap",
		Contexts:       map[string]*clientcmdapi.Context{"bootstrap": {Cluster: "cluster", AuthInfo: "bootstrap"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bootstrap": {Token: in.Token}},
		Clusters:       map[string]*clientcmdapi.Cluster{"cluster": cluster},
	})
	if err != nil {
		return fmt.Errorf("writing bootstrap kubeconfig: %w", err)
	}
	if byKubeadm {
		// kubeadm refuses to join a host that has its files already, and writes them itself.
		n.Files = append(n.Files, File{Path: discoveryFile, Mode: 0o600, Content: kubeconfig})
		return nil
	}
	n.Files = append(n.Files,
		File{Path: caFile, Mode: 0o644, Content: in.CA},
		File{Path: bootstrapKubeconfig, Mode: 0o600, Content: kubeconfig},
	)
	return nil
}

// reach returns the URL of the API server, and the name that its certificate is verified for; empty is the endpoint's host.
func reach(in Input) (endpoint, serverName string) {
	endpoint, serverName = in.Endpoint, in.TLSServerName
	if in.Spec.Join.Endpoint != "" {
		endpoint, serverName = in.Spec.Join.Endpoint, ""
	}
	if in.Spec.Join.TLSServerName != "" {
		serverName = in.Spec.Join.TLSServerName
	}
	return endpoint, serverName
}
