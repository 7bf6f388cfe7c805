// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// workload reaches the workload cluster, real or in memory, with what both can answer.
type workload struct{ set kubernetes.Interface }

// reach connects the workflow to the workload cluster.
func (w *Environment) reach(kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	w.work = &workload{set}
	return nil
}

// nodes are the worker Nodes by name.
func (w *workload) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	list, err := w.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		if _, plane := list.Items[i].Labels["node-role.kubernetes.io/control-plane"]; !plane {
			nodes[list.Items[i].Name] = &list.Items[i]
		}
	}
	return nodes, nil
}

// authority signs certificates, with RSA as upstream's fake API server demands.
type authority struct {
	certificate, key []byte
	signer           *rsa.PrivateKey
	parsed           *x509.Certificate
}

func newAuthority(name string) (*authority, error) {
	a := &authority{}
	var err error
	if a.signer, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	a.parsed = template509(name)
	a.parsed.IsCA, a.parsed.BasicConstraintsValid = true, true
	a.parsed.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	a.certificate, err = a.sign(a.parsed, a.signer)
	a.key = keyPEM(a.signer)
	return a, err
}

func template509(name string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func (a *authority) sign(of *x509.Certificate, key *rsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, of, a.parsed, &key.PublicKey, a.signer)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func keyPEM(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// kubeconfig is that of an administrator of the API server at the URL.
func (a *authority) kubeconfig(server string) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	of := template509("kubernetes-admin", "system:masters")
	of.KeyUsage, of.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	certificate, err := a.sign(of, key)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.certificate}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: keyPEM(key)}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: "admin"}
	config.CurrentContext = cluster
	return clientcmd.Write(*config)
}
