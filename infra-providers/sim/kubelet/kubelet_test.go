// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func TestCredentialParse(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	known := issue(t, start, start.Add(time.Hour))
	for name, test := range map[string]struct {
		credential credential
		now        time.Time
		usable     bool
	}{
		"a fresh one":             {known, start, true},
		"one that ends in 2m":     {known, start.Add(58 * time.Minute), true},
		"one that ends in 30s":    {known, start.Add(59*time.Minute + 30*time.Second), false},
		"none":                    {nil, start, false},
		"one that is not whole":   {known[:len(known)/2], start, false},
		"something else entirely": {credential("hello"), start, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.credential.parse(test.now) != nil; got != test.usable {
				t.Errorf("usable is %t, want %t", got, test.usable)
			}
		})
	}
}

func TestRotateAt(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	certificate := &tls.Certificate{Leaf: &x509.Certificate{NotBefore: start, NotAfter: start.Add(100 * time.Minute)}}
	for name, test := range map[string]struct{ now, want time.Time }{
		"after four fifths of the lifetime":          {start, start.Add(80 * time.Minute)},
		"in a minute when that was tried and failed": {start.Add(90 * time.Minute), start.Add(91 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rotateAt(certificate, test.now); !got.Equal(test.want) {
				t.Errorf("got %s, want %s", got.Sub(start), test.want.Sub(start))
			}
		})
	}
}

func TestRequestsNameTheNode(t *testing.T) {
	t.Parallel()
	request := servingRequest("worker-1", "10.0.0.1")
	got := []string{request.Subject.CommonName, request.Subject.Organization[0], request.DNSNames[0], request.IPAddresses[0].String()}
	if diff := cmp.Diff([]string{"system:node:worker-1", "system:nodes", "worker-1", "10.0.0.1"}, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestDenialReason(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[certificatesv1.RequestConditionType]bool{
		certificatesv1.CertificateApproved: false,
		certificatesv1.CertificateDenied:   true,
		certificatesv1.CertificateFailed:   true,
	} {
		request := &certificatesv1.CertificateSigningRequest{}
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Reason: "Why", Message: "because"}}
		if got := denialReason(request); (got != "") != refused {
			t.Errorf("%s: got %q", kind, got)
		}
	}
}

func TestAllocatableIsWhatReservationsLeave(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config kubeletv1beta1.KubeletConfiguration
		want   [2]string
	}{
		"the eviction threshold by default": {kubeletv1beta1.KubeletConfiguration{}, [2]string{"2", "3996Mi"}},
		"reservations for Kubernetes and the system": {kubeletv1beta1.KubeletConfiguration{
			KubeReserved:   map[string]string{"cpu": "100m", "memory": "200Mi"},
			SystemReserved: map[string]string{"cpu": "100m", "memory": "200Mi"},
		}, [2]string{"1800m", "3596Mi"}},
		"an eviction threshold of its own": {kubeletv1beta1.KubeletConfiguration{
			EvictionHard: map[string]string{"memory.available": "1Gi"},
		}, [2]string{"2", "3Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &Kubelet{config: &Config{Kubelet: test.config}}
			got := k.allocatable(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")})
			if diff := cmp.Diff(test.want, [2]string{got.Cpu().String(), got.Memory().String()}); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodNetwork(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.244.3.0/24"}}
	if got := podNetwork(node).String(); got != "10.244.3.0" {
		t.Errorf("got %s, want the node's own range", got)
	}
	node = &corev1.Node{}
	node.Name = "worker-1"
	first := podNetwork(node).String()
	node.Name = "worker-2"
	if second := podNetwork(node).String(); first == second {
		t.Errorf("two nodes share %s", first)
	}
}

func issue(t *testing.T, from, until time.Time) credential {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
}

// files is a [Store] in memory.
type files map[string][]byte

func (f files) Load(name string) []byte { return f[name] }

func (f files) Save(name string, content []byte) error {
	f[name] = content
	return nil
}

// TestCertificateRequestsUseOneKey: a bootstrap token gets one key a certificate, and the first answer may be lost.
func TestCertificateRequestsUseOneKey(t *testing.T) {
	t.Parallel()
	store := files{}
	first, err := bootstrapKey(store)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := bootstrapKey(store); err != nil || string(again) != string(first) {
		t.Errorf("after a restart the key is another: %v", err)
	}
	if err := store.Save(requestedKey, nil); err != nil {
		t.Fatal(err)
	}
	if other, err := bootstrapKey(store); err != nil || string(other) == string(first) {
		t.Errorf("the key of the certificate before is used again: %v", err)
	}
}
