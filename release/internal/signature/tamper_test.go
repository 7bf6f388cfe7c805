// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachBitOfASignatureCounts flips every one, and makes the signature shorter and longer.
func TestEachBitOfASignatureCounts(t *testing.T) {
	t.Parallel()
	for name, generate := range map[string]func(*testing.T) crypto.Signer{"ECDSA": ecdsaKey, "Ed25519": ed25519Key} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			private, public := writeKeys(t, generate(t))
			made, err := Sign(private, []byte("content"))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := base64.StdEncoding.DecodeString(made)
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, changed []byte) {
				t.Helper()
				if err := Verify(public, []byte("content"), base64.StdEncoding.EncodeToString(changed)); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: got %v, want ErrInvalid", what, err)
				}
			}
			for bit := range len(raw) * 8 {
				changed := append([]byte(nil), raw...)
				changed[bit/8] ^= 1 << (bit % 8)
				check("another bit", changed)
			}
			check("nothing", nil)
			check("one byte less", raw[:len(raw)-1])
			check("one byte more", append(append([]byte(nil), raw...), 0))
			check("twice", append(append([]byte(nil), raw...), raw...))
		})
	}
}

// TestSpaceAroundASignatureDoesNotCount, as editors and downloads add it; space within it is no Base64.
func TestSpaceAroundASignatureDoesNotCount(t *testing.T) {
	t.Parallel()
	private, public := writeKeys(t, ed25519Key(t))
	made, err := Sign(private, []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{made, made + "\n", "\r\n " + made + "\t\r\n"} {
		if err := Verify(public, []byte("content"), text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := Verify(public, []byte("content"), made[:10]+" "+made[10:]); err == nil || errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "must be in Base64") {
		t.Errorf("got %v", err)
	}
}

// TestKeysOfOtherFormsAreExplained has the files that openssl writes with other commands than the documented one.
func TestKeysOfOtherFormsAreExplained(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, kind string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file("sec1", "EC PRIVATE KEY", sec1):            "not a block of type EC PRIVATE KEY; openssl pkcs8 -topk8 -nocrypt -in " + filepath.Join(folder, "sec1") + " writes it",
		file("parameters", "EC PARAMETERS", []byte{1}):  "not a block of type EC PARAMETERS; openssl pkcs8 -topk8 -nocrypt -in ",
		file("rsa", "RSA PRIVATE KEY", []byte{1}):       "not a block of type RSA PRIVATE KEY; openssl pkcs8 -topk8 -nocrypt -in ",
		file("certificate", "CERTIFICATE", []byte{1}):   "must have a PRIVATE KEY, not a block of type CERTIFICATE",
		file("broken", "PRIVATE KEY", []byte("no DER")): "must have a private key in PKCS #8: ",
	} {
		if made, err := Sign(path, []byte("content")); err == nil || made != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v", filepath.Base(path), made, err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(folder, "sec1"):                         "must have a PUBLIC KEY, not a block of type EC PRIVATE KEY; openssl pkey -pubout -in ",
		filepath.Join(folder, "certificate"):                  "must have a PUBLIC KEY, not a block of type CERTIFICATE",
		file("broken-public", "PUBLIC KEY", []byte("no DER")): "must have a public key: ",
		filepath.Join(folder, "none"):                         "no such file",
	} {
		if err := Verify(path, []byte("content"), "c2ln"); err == nil || errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", filepath.Base(path), err)
		}
	}
}

// TestKeysOfOtherKindsDoNotVerify has an Ed25519 signature and an ECDSA key, and the reverse.
func TestKeysOfOtherKindsDoNotVerify(t *testing.T) {
	t.Parallel()
	edPrivate, edPublic := writeKeys(t, ed25519Key(t))
	ecPrivate, ecPublic := writeKeys(t, ecdsaKey(t))
	for private, public := range map[string]string{edPrivate: ecPublic, ecPrivate: edPublic} {
		made, err := Sign(private, []byte("content"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(public, []byte("content"), made); !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
	}
}
