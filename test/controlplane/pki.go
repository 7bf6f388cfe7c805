// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// validity of every certificate: longer than any test or demonstration.
	validity = 365 * 24 * time.Hour

	// backdate tolerates clocks that are behind. Certificates that the
	// controller manager backdates are then within the validity of their issuer.
	backdate = time.Hour
)

// serviceIP is the first address of the service network, that of the API
// server's own Service.
const (
	serviceNetwork = "10.96.0.0/16"
	serviceIP      = "10.96.0.1"
)

// pki is everything secret about a cluster. etcd has an authority of its own:
// a client certificate of the cluster must not open it.
type pki struct {
	cluster *authority
	etcd    *authority

	etcdServer        keyPair
	etcdClient        keyPair
	apiServer         keyPair
	controllerManager keyPair
	admin             keyPair
	serviceAccount    keyPair // a bare key, without certificate
}

// keyPair is a certificate and its key, in PEM.
type keyPair struct {
	cert []byte
	key  []byte
}

// newPKI makes the keys of the cluster called name.
func newPKI(name string, extraSANs []string) (*pki, error) {
	var p pki
	var err error
	if p.cluster, err = newAuthority(name + "-ca"); err != nil {
		return nil, err
	}
	if p.etcd, err = newAuthority(name + "-etcd-ca"); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	if p.serviceAccount.key, err = encodeKey(key); err != nil {
		return nil, err
	}
	apiNames := append([]string{
		"localhost", loopback, "::1", serviceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}, extraSANs...)
	for _, leaf := range []struct {
		pair *keyPair
		by   *authority
		subject
	}{
		{&p.etcdServer, p.etcd, subject{name: "etcd", hosts: []string{"localhost", loopback}}},
		{&p.etcdClient, p.etcd, subject{name: "kube-apiserver"}},
		{&p.apiServer, p.cluster, subject{name: "kube-apiserver", hosts: apiNames}},
		{&p.controllerManager, p.cluster, subject{name: "system:kube-controller-manager", groups: []string{"system:masters"}}},
		{&p.admin, p.cluster, subject{name: adminUser, groups: []string{"system:masters"}}},
	} {
		if *leaf.pair, err = leaf.by.issue(leaf.subject); err != nil {
			return nil, err
		}
	}
	return &p, nil
}

// authority issues certificates.
type authority struct {
	keyPair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority with a key of its own.
func newAuthority(name string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	a := &authority{cert: template, key: key}
	if a.keyPair, err = a.sign(template, key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.keyPair.cert)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	return a, nil
}

// subject is whom a certificate names: a server if it has hosts, a client with
// groups otherwise.
type subject struct {
	name   string
	groups []string
	hosts  []string
}

// issue makes a key and a certificate for s.
func (a *authority) issue(s subject) (keyPair, error) {
	key, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: s.name, Organization: s.groups})
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(template, key)
}

// sign turns template into a certificate of key.
func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (keyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: encoded}, nil
}

// newTemplate starts a certificate for name.
func newTemplate(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
