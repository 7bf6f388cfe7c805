// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package keysize refuses keys of TLS that take a processor for seconds to hours at each connection, whatever the timeout of
// the handshake: the time grows with the third power of their size. Packages that connect to servers with certificates and
// keys that tenants write, such as kubeconfig, call it.
package keysize

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	// MaxRSA is how many bits an RSA key may have. Go permits those of servers as many.
	MaxRSA = 8192
	// maxPrivate is how many bytes a private key may have in PEM. One of MaxRSA bits has some 6,400.
	maxPrivate = 16 << 10
)

// CheckCertificates fails if one of the certificates in PEM has a key that is too large. What is no certificate is for the
// caller to refuse.
func CheckCertificates(content []byte) error {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, is := certificate.PublicKey.(*rsa.PublicKey); is && key.N.BitLen() > MaxRSA {
			return fmt.Errorf("a certificate has an RSA key of %d bits, and %d are the most", key.N.BitLen(), MaxRSA)
		}
	}
	return nil
}

// NewCertPool returns the certificates in PEM that a server's certificate is verified with. The text of its error goes on from the
// name of the field that has them.
func NewCertPool(content []byte) (*x509.CertPool, error) {
	if err := CheckCertificates(content); err != nil {
		return nil, fmt.Errorf("is refused: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("holds no certificate in PEM")
	}
	return pool, nil
}

// CheckPrivateKey fails for a private key in PEM that takes long to parse. That of a certificate is as large as its public
// key.
func CheckPrivateKey(content []byte) error {
	if len(content) > maxPrivate {
		return fmt.Errorf("the private key has more than %d KiB", maxPrivate>>10)
	}
	return nil
}
