// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package keysizetest makes certificates with keys that package keysize refuses. Only tests use it.
package keysizetest

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Certificate returns the certificate of an authority in PEM whose RSA key has so many bits. Its private key is not known.
func Certificate(t testing.TB, bits uint) []byte {
	t.Helper()
	modulus := new(big.Int).Lsh(big.NewInt(1), bits)
	public := &rsa.PublicKey{N: modulus.Sub(modulus, big.NewInt(1)), E: 65537}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, SubjectKeyId: []byte{1},
	}
	signer := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	content, err := x509.CreateCertificate(nil, template, template, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content})
}
