// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeKeys writes both halves of a key as PEM files.
func writeKeys(t *testing.T, private crypto.Signer) (privateFile, publicFile string) {
	t.Helper()
	folder := t.TempDir()
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	privateFile, publicFile = filepath.Join(folder, "key.pem"), filepath.Join(folder, "key.pub")
	for path, block := range map[string]*pem.Block{
		privateFile: {Type: "PRIVATE KEY", Bytes: encoded},
		publicFile:  {Type: "PUBLIC KEY", Bytes: public},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return privateFile, publicFile
}

func ecdsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ed25519Key(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	for name, generate := range map[string]func(*testing.T) crypto.Signer{"ECDSA": ecdsaKey, "Ed25519": ed25519Key} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			private, public := writeKeys(t, generate(t))
			_, otherPublic := writeKeys(t, generate(t))
			signature, err := Sign(private, []byte("content"))
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(public, []byte("content"), signature+"\n"); err != nil {
				t.Errorf("the signature is not valid for its own content: %v", err)
			}
			if err := Verify(public, []byte("other content"), signature); !errors.Is(err, ErrInvalid) {
				t.Errorf("other content: got %v, want ErrInvalid", err)
			}
			if err := Verify(otherPublic, []byte("content"), signature); !errors.Is(err, ErrInvalid) {
				t.Errorf("another key: got %v, want ErrInvalid", err)
			}
		})
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPrivate, rsaPublic := writeKeys(t, rsaKey)
	private, public := writeKeys(t, ed25519Key(t))
	folder := t.TempDir()
	noPEM := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(noPEM, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	encrypted := filepath.Join(t.TempDir(), "encrypted")
	if err := os.WriteFile(encrypted, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		rsaPrivate:  "must have a key of ECDSA or Ed25519, not a *rsa.PrivateKey; openssl genpkey -algorithm ed25519 makes one",
		public:      "must have a PRIVATE KEY, not a block of type PUBLIC KEY",
		encrypted:   "must have a PRIVATE KEY, not a block of type ENCRYPTED PRIVATE KEY; openssl pkcs8 -topk8 -nocrypt -in " + encrypted + " writes it",
		noPEM:       "must be in PEM format",
		noPEM + "2": "no such file",
		folder:      "is a directory",
	} {
		if _, err := Sign(key, nil); err == nil || !strings.Contains(err.Error(), "--key") || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), want) {
			t.Errorf("signing: got %v, want %s", err, want)
		}
	}
	for key, want := range map[string]string{
		rsaPublic: "must have a key of ECDSA or Ed25519, not a *rsa.PublicKey",
		private:   "must have a PUBLIC KEY, not a block of type PRIVATE KEY; openssl pkey -pubout -in " + private + " writes it",
		noPEM:     "must be in PEM format",
	} {
		if err := Verify(key, nil, "c2ln"); err == nil || errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--key "+key) || !strings.Contains(err.Error(), want) {
			t.Errorf("verifying: got %v, want %s", err, want)
		}
	}
	if err := Verify(public, nil, "%"); err == nil || errors.Is(err, ErrInvalid) {
		t.Errorf("verifying what is no Base64: got %v, want an error about the encoding", err)
	}
}
