// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package signature signs and verifies with a key that the user brings: an ECDSA or Ed25519 key in PEM, private keys in
// PKCS #8 as `openssl genpkey` writes them. Signatures are in Base64. It uses no network.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrInvalid is the error of a signature that was not made with the key for this content.
var ErrInvalid = errors.New("the signature does not belong to this content and key")

// Sign signs the content with the private key in a file.
func Sign(keyFile string, content []byte) (string, error) {
	block, err := readPEM(keyFile, "PRIVATE KEY", "openssl pkcs8 -topk8 -nocrypt -in")
	if err != nil {
		return "", err
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("--key %s must have a private key in PKCS #8: %w", keyFile, err)
	}
	var raw []byte
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		digest := sha256.Sum256(content)
		raw, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	case ed25519.PrivateKey:
		raw, err = key.Sign(rand.Reader, content, crypto.Hash(0))
	default:
		return "", fmt.Errorf("--key %s must have a key of ECDSA or Ed25519, not a %T; openssl genpkey -algorithm ed25519 makes one", keyFile, key)
	}
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// Verify checks a signature with the public key in a file. Its error is [ErrInvalid] where the signature is another's.
func Verify(keyFile string, content []byte, signature string) error {
	block, err := readPEM(keyFile, "PUBLIC KEY", "openssl pkey -pubout -in")
	if err != nil {
		return err
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("--key %s must have a public key: %w", keyFile, err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(signature))
	if err != nil {
		return fmt.Errorf("the signature must be in Base64, as sign writes it: %w", err)
	}
	valid := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(content)
		valid = ecdsa.VerifyASN1(key, digest[:], raw)
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, content, raw)
	default:
		return fmt.Errorf("--key %s must have a key of ECDSA or Ed25519, not a %T; openssl genpkey -algorithm ed25519 makes one", keyFile, key)
	}
	if !valid {
		return ErrInvalid
	}
	return nil
}

// readPEM reads a key of one kind. The command writes it from keys of other kinds, such as encrypted ones.
func readPEM(path, kind, command string) (*pem.Block, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading --key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("--key %s must be in PEM format, with a %s", path, kind)
	}
	switch {
	case block.Type == kind:
		return block, nil
	case strings.HasSuffix(block.Type, "PRIVATE KEY") || block.Type == "EC PARAMETERS":
		return nil, fmt.Errorf("--key %s must have a %s, not a block of type %s; %s %s writes it", path, kind, block.Type, command, path)
	}
	return nil, fmt.Errorf("--key %s must have a %s, not a block of type %s", path, kind, block.Type)
}
