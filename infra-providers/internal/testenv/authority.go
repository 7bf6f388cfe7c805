// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// authority signs client certificates. Envtest's own keeps its key to itself, which kube-controller-manager
// needs to sign those of kubelets.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	dir         string
}

func newAuthority(dir string) (*authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "clients"}, key)
	if err != nil {
		return nil, err
	}
	pemKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	a := &authority{certificate: certificate, key: key, dir: dir}
	return a, errors.Join(
		os.WriteFile(a.file("crt"), encode(certificate.Raw), 0o600),
		os.WriteFile(a.file("key"), pemKey, 0o600),
	)
}

func (a *authority) file(kind string) string { return filepath.Join(a.dir, "clients."+kind) }

// Configure makes an API server trust the authority.
func (a *authority) Configure(_ string, args *envtest.Arguments) error {
	args.Set("client-ca-file", a.file("crt"))
	return nil
}

// Start does nothing: the files exist.
func (a *authority) Start() error { return nil }

// Stop does nothing: the files go with their folder.
func (a *authority) Stop() error { return nil }

// AddUser returns a configuration for a user with a new certificate.
func (a *authority) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user.Name, Organization: user.Groups},
		NotBefore:    a.certificate.NotBefore,
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.CertData = encode(signed)
	config.KeyData, err = keyutil.MarshalPrivateKeyToPEM(key)
	return config, err
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// OtherCA is a certificate authority that has nothing to do with any cluster.
func OtherCA() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "unprivileged"}, key)
	if err != nil {
		panic(err)
	}
	return encode(certificate.Raw)
}
