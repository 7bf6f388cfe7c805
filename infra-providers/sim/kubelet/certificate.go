// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/keyutil"
)

// certificateWait is how long a kubelet waits for its first client certificate before it makes another request (client-go,
// util/certificate: certificateWaitTimeout).
const certificateWait = 15 * time.Minute

// credential is a certificate with its key, as PEM.
type credential []byte

// parse returns nil unless there is a certificate that is valid for at least a minute.
func (c credential) parse(now time.Time) *tls.Certificate {
	if len(c) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(c, c)
	if err != nil || pair.Leaf == nil || now.Add(time.Minute).After(pair.Leaf.NotAfter) {
		return nil
	}
	return &pair
}

// rotateAt is when a kubelet requests the next certificate: after four fifths of the lifetime, or in a minute if that has
// failed.
func rotateAt(certificate *tls.Certificate, now time.Time) time.Time {
	leaf := certificate.Leaf
	due := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 4 / 5)
	if soon := now.Add(time.Minute); due.Before(soon) {
		return soon
	}
	return due
}

// clientRequest is the request of a client certificate of a kubelet.
func clientRequest(nodeName string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + nodeName}}
}

// servingRequest is the request of a serving certificate of a kubelet.
func servingRequest(nodeName, address string) *x509.CertificateRequest {
	request := clientRequest(nodeName)
	request.DNSNames = []string{nodeName}
	if ip := net.ParseIP(address); ip != nil {
		request.IPAddresses = []net.IP{ip}
	}
	return request
}

// newKey generates a private key, as PEM.
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return keyutil.MarshalPrivateKeyToPEM(key)
}

// bootstrapKey returns the key that the first client certificate is requested for. It is stored before the request, as
// the kubelet does (client-go, tools/bootstrap: kubelet-client.key.tmp): a host that is restarted while it waits repeats
// the request with the same key, and no other key gets a certificate with its token.
func bootstrapKey(store Store) ([]byte, error) {
	if stored := store.Load(requestedKey); len(stored) > 0 {
		return stored, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, store.Save(requestedKey, key)
}

// requestCertificate creates a CertificateSigningRequest for a key and waits until it is signed or denied.
func requestCertificate(ctx context.Context, c *connection, keyPEM []byte, template *x509.CertificateRequest, signer string, usage certificatesv1.KeyUsage) (credential, error) {
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, err
	}
	created, err := c.requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating certificate signing request: %w", err)
	}
	signed, err := waitForCertificate(ctx, c, created.Name)
	if err != nil {
		return nil, err
	}
	return slices.Concat(bytes.TrimSpace(signed), []byte("\n"), keyPEM), nil
}

// waitForCertificate watches a request until it is signed or denied; a watch that ends is started again.
func waitForCertificate(ctx context.Context, c *connection, name string) ([]byte, error) {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	for ctx.Err() == nil {
		watching, err := c.requests.Watch(ctx, only)
		if err != nil {
			return nil, fmt.Errorf("waiting for certificate signing request %q: %w", name, err)
		}
		for event := range watching.ResultChan() {
			request, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				break
			}
			if reason := denialReason(request); reason != "" {
				watching.Stop()
				return nil, fmt.Errorf("certificate signing request %q was denied: %s", name, reason)
			}
			if len(request.Status.Certificate) > 0 {
				watching.Stop()
				return request.Status.Certificate, nil
			}
		}
		watching.Stop()
		pause(ctx, time.Second)
	}
	return nil, ctx.Err()
}

func denialReason(request *certificatesv1.CertificateSigningRequest) string {
	for _, condition := range request.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return ""
}
