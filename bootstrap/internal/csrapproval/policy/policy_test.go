// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// key signs all requests of these tests.
func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, k *ecdsa.PrivateKey, request *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, request, k)
	if err != nil {
		return nil // what x509 refuses to make cannot come
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

var node1 = Identity{NodeName: "node-1", Names: []string{"m1", "node-1", "node-1.internal"}, Addresses: []string{"10.0.0.1", "fd00::1"}}

// certificateRequest is a request for a certificate, as it should be unless changed.
type certificateRequest struct {
	certificatesv1.CertificateSigningRequestSpec
	x509.CertificateRequest
}

func serving() certificateRequest {
	return certificateRequest{
		certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName,
			Username:   "system:node:node-1",
			Groups:     []string{"system:nodes", "system:authenticated"},
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
		x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:node-1", Organization: []string{"system:nodes"}},
			DNSNames:    []string{"node-1"},
			IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")},
		},
	}
}

func TestServing(t *testing.T) {
	t.Parallel()
	k := key(t)
	cases := map[string]struct {
		change  func(*certificateRequest)
		host    Identity
		refused bool
	}{
		"approves what is the Machine's":    {func(*certificateRequest) {}, node1, false},
		"approves addresses alone":          {func(a *certificateRequest) { a.DNSNames = nil }, node1, false},
		"approves key encipherment for RSA": {func(a *certificateRequest) { a.Usages = append(a.Usages, certificatesv1.UsageKeyEncipherment) }, node1, false},

		"refuses a foreign name":                             {func(a *certificateRequest) { a.DNSNames = append(a.DNSNames, "kubernetes.default.svc") }, node1, true},
		"refuses a foreign address":                          {func(a *certificateRequest) { a.IPAddresses = append(a.IPAddresses, net.ParseIP("10.0.0.2")) }, node1, true},
		"refuses a wildcard":                                 {func(a *certificateRequest) { a.DNSNames = []string{"*"} }, node1, true},
		"refuses an empty name":                              {func(a *certificateRequest) { a.DNSNames = []string{""} }, node1, true},
		"refuses no names at all":                            {func(a *certificateRequest) { a.DNSNames, a.IPAddresses = nil, nil }, node1, true},
		"refuses another requester":                          {func(a *certificateRequest) { a.Username = "system:node:node-2" }, node1, true},
		"refuses a user that is no node":                     {func(a *certificateRequest) { a.Username = "node-1" }, node1, true},
		"refuses a user outside nodes":                       {func(a *certificateRequest) { a.Groups = []string{"system:authenticated"} }, node1, true},
		"refuses another subject":                            {func(a *certificateRequest) { a.Subject.CommonName = "system:node:node-2" }, node1, true},
		"refuses a second organization":                      {func(a *certificateRequest) { a.Subject.Organization = []string{"system:nodes", "system:masters"} }, node1, true},
		"refuses masters":                                    {func(a *certificateRequest) { a.Subject.Organization = []string{"system:masters"} }, node1, true},
		"refuses an e-mail address":                          {func(a *certificateRequest) { a.EmailAddresses = []string{"a@example.test"} }, node1, true},
		"refuses a URI":                                      {func(a *certificateRequest) { a.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, node1, true},
		"refuses client authentication":                      {func(a *certificateRequest) { a.Usages = append(a.Usages, certificatesv1.UsageClientAuth) }, node1, true},
		"refuses to sign certificates":                       {func(a *certificateRequest) { a.Usages = append(a.Usages, certificatesv1.UsageCertSign) }, node1, true},
		"refuses without a usage":                            {func(a *certificateRequest) { a.Usages = nil }, node1, true},
		"refuses a Machine without Node":                     {func(*certificateRequest) {}, Identity{Names: node1.Names, Addresses: node1.Addresses}, true},
		"refuses a Node whose name the cloud did not assign": {func(*certificateRequest) {}, Identity{NodeName: "node-1", Names: []string{"m1"}, Addresses: node1.Addresses}, true},
		"refuses the endpoint's name":                        {func(a *certificateRequest) { a.DNSNames = []string{"node-1", "api.example.test"} }, taking("api.example.test", ""), true},
		"refuses the endpoint's name in capitals":            {func(a *certificateRequest) { a.DNSNames = []string{"node-1", "api.example.test"} }, taking("API.Example.Test", ""), true},
		"refuses the endpoint's address":                     {func(*certificateRequest) {}, taking("", "10.0.0.1"), true},
		"refuses the endpoint's address written otherwise":   {func(*certificateRequest) {}, taking("", "::ffff:10.0.0.1"), true},
		"refuses the API server as pods call it":             {func(a *certificateRequest) { a.DNSNames = []string{"kubernetes.default.svc"} }, identityWith("kubernetes.default.svc"), true},
		"refuses the API server's short name":                {func(a *certificateRequest) { a.DNSNames = []string{"kubernetes"} }, identityWith("kubernetes"), true},
		"refuses localhost":                                  {func(a *certificateRequest) { a.DNSNames = []string{"localhost"} }, identityWith("localhost"), true},
		"refuses a name below localhost":                     {func(a *certificateRequest) { a.DNSNames = []string{"a.LOCALHOST."} }, identityWith("a.LOCALHOST."), true},
		"refuses loopback":                                   {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")} }, identityWith("127.0.0.1"), true},
		"refuses loopback of IPv6":                           {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("::1")} }, identityWith("::1"), true},
		"refuses the metadata service":                       {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("169.254.169.254")} }, identityWith("169.254.169.254"), true},
		"refuses link-local of IPv6":                         {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("fe80::1")} }, identityWith("fe80::1"), true},
		"refuses every address":                              {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("0.0.0.0")} }, identityWith("0.0.0.0"), true},
		"refuses multicast":                                  {func(a *certificateRequest) { a.IPAddresses = []net.IP{net.ParseIP("224.0.0.1")} }, identityWith("224.0.0.1"), true},
		"refuses an address that is none":                    {func(*certificateRequest) {}, Identity{NodeName: "node-1", Names: node1.Names, Addresses: []string{"", "10.0.0.1/8"}}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serving()
			c.change(&a)
			a.Request = sign(t, k, &a.CertificateRequest)
			assertDecision(t, Serving(&certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}, c.host), c.refused)
		})
	}
}

// taking is node1, with a name and an address that are those of another host.
func taking(name, address string) Identity {
	h := node1
	h.Names, h.Taken = append(slices.Clone(h.Names), strings.ToLower(name)), Reserved{Names: []string{"", name}, Addresses: []string{"", address}}
	return h
}

// identityWith is node1 in a cloud that assigns any address.
func identityWith(anything string) Identity {
	h := node1
	h.Names, h.Addresses = append(slices.Clone(h.Names), anything), append(slices.Clone(h.Addresses), anything)
	return h
}

func TestClient(t *testing.T) {
	t.Parallel()
	k := key(t)
	waiting := Identity{Names: []string{"m1", "node-1"}, Addresses: node1.Addresses}
	cases := map[string]struct {
		change  func(*certificateRequest)
		host    Identity
		refused bool
	}{
		"approves the Machine's name":         {func(*certificateRequest) {}, waiting, false},
		"refuses a name that is not its":      {func(a *certificateRequest) { a.Subject.CommonName = "system:node:node-2" }, waiting, true},
		"refuses a second Node":               {func(*certificateRequest) {}, node1, true},
		"refuses a Node of the control plane": {func(*certificateRequest) {}, Identity{Names: waiting.Names, Taken: Reserved{Names: []string{"node-1"}}}, true},
		"refuses the API server's name":       {func(a *certificateRequest) { a.Subject.CommonName = "system:node:kubernetes" }, Identity{Names: []string{"kubernetes"}}, true},
		"refuses a user":                      {func(a *certificateRequest) { a.Subject.CommonName = "admin" }, waiting, true},
		"refuses masters":                     {func(a *certificateRequest) { a.Subject.Organization = []string{"system:masters"} }, waiting, true},
		"refuses names of hosts":              {func(a *certificateRequest) { a.DNSNames = []string{"node-1"} }, waiting, true},
		"refuses a serving certificate":       {func(a *certificateRequest) { a.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth} }, waiting, true},
		"refuses the name without a Node":     {func(a *certificateRequest) { a.Subject.CommonName = "system:node:" }, waiting, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serving()
			a.SignerName, a.Username = certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:abcdef"
			a.DNSNames, a.IPAddresses = nil, nil
			a.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
			c.change(&a)
			a.Request = sign(t, k, &a.CertificateRequest)
			assertDecision(t, Client(&certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}, c.host), c.refused)
		})
	}
}

// TestHostNamesOfClouds has the names that cloud-init gives to hosts, from the names in the metadata, and the cloud-assigned
// names of the drivers.
func TestHostNamesOfClouds(t *testing.T) {
	t.Parallel()
	k := key(t)
	aws := []string{"workers-x7k2p", "ip-10-0-0-1.eu-central-1.compute.internal", "ip-10-0-0-1"}
	openstack := []string{"workers-x7k2p", "workers-x7k2p.novalocal"}
	for name, c := range map[string]struct {
		host    string
		names   []string
		taken   []string
		refused bool
	}{
		"approves Ubuntu's on AWS":                   {"ip-10-0-0-1", aws, nil, false},
		"approves RHEL's on AWS":                     {"ip-10-0-0-1.eu-central-1.compute.internal", aws, nil, false},
		"approves Ubuntu's on OpenStack":             {"workers-x7k2p", openstack, nil, false},
		"approves RHEL's on OpenStack":               {"workers-x7k2p.novalocal", openstack, nil, false},
		"refuses another domain":                     {"workers-x7k2p.example", openstack, nil, true},
		"refuses a label that is another Machine's":  {"ip-10-0-0-1", aws, []string{"ip-10-0-0-1"}, true},
		"refuses a name that is another Machine's":   {"workers-x7k2p.novalocal", openstack, []string{"workers-x7k2p.novalocal"}, true},
		"refuses a label of a control plane's Node":  {"ip-10-0-0-1", aws, []string{"IP-10-0-0-1"}, true},
		"refuses a label that is the API server's":   {"kubernetes", []string{"m", "kubernetes.internal", "kubernetes"}, nil, true},
		"refuses a name that begins as API server's": {"kubernetes.novalocal", []string{"kubernetes", "kubernetes.novalocal"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serving()
			a.SignerName, a.Username = certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:abcdef"
			a.DNSNames, a.IPAddresses = nil, nil
			a.Subject.CommonName = "system:node:" + c.host
			a.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
			a.Request = sign(t, k, &a.CertificateRequest)
			host := Identity{Names: c.names, Taken: Reserved{Names: c.taken}}
			assertDecision(t, Client(&certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}, host), c.refused)
		})
	}
}

func assertDecision(t *testing.T, err error, refused bool) {
	t.Helper()
	if _, is := errors.AsType[*Refusal](err); is != refused || (err != nil) != refused {
		t.Errorf("err = %v, want refused = %t", err, refused)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	good := serving()
	request := sign(t, key(t), &good.CertificateRequest)
	block, _ := pem.Decode(request)
	broken := slices.Clone(block.Bytes)
	broken[len(broken)-1] ^= 1
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"text":               []byte("hello"),
		"two blocks":         slices.Concat(request, request),
		"another kind":       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}),
		"a broken signature": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: broken}),
	} {
		a := serving()
		a.Request = data
		if err := Serving(&certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}, node1); err == nil {
			t.Errorf("approved %s", name)
		}
	}
}

// longKey is an RSA key of 9,689 bits, whose modulus is one prime: everybody can make longer ones at once.
type longKey struct{ public rsa.PublicKey }

func newLongKey() longKey {
	n := new(big.Int).Lsh(big.NewInt(1), 9689)
	return longKey{rsa.PublicKey{N: n.Sub(n, big.NewInt(1)), E: 65537}}
}

// Public returns the public key.
func (k longKey) Public() crypto.PublicKey { return &k.public }

// Sign signs as PKCS #1 1.5 has it.
func (k longKey) Sign(_ io.Reader, digest []byte, _ crypto.SignerOpts) ([]byte, error) {
	prefix := []byte{0, 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	padding := bytes.Repeat([]byte{0xff}, k.public.Size()-2-len(prefix)-len(digest))
	padded := new(big.Int).SetBytes(slices.Concat([]byte{0, 1}, padding, prefix, digest))
	order := new(big.Int).Sub(k.public.N, big.NewInt(1))
	exponent := new(big.Int).ModInverse(big.NewInt(int64(k.public.E)), order)
	return padded.Exp(padded, exponent, k.public.N).FillBytes(make([]byte, k.public.Size())), nil
}

// TestLongKeysAreRefused: the signature of one takes a CPU for up to a tenth of a second.
func TestLongKeysAreRefused(t *testing.T) {
	t.Parallel()
	a := serving()
	a.CertificateRequest.SignatureAlgorithm = x509.SHA256WithRSA
	der, err := x509.CreateCertificateRequest(rand.Reader, &a.CertificateRequest, newLongKey())
	if err != nil {
		t.Fatal(err)
	}
	a.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	assertDecision(t, Serving(&certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}, node1), true)
}

// TestNodeOfVerifiesNoSignature: everything that an API server sends is looked at, and only what is decided on is verified.
func TestNodeOfVerifiesNoSignature(t *testing.T) {
	t.Parallel()
	a := serving()
	a.SignerName, a.Username = certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:abcdef"
	a.DNSNames, a.IPAddresses = nil, nil
	a.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
	block, _ := pem.Decode(sign(t, key(t), &a.CertificateRequest))
	block.Bytes[len(block.Bytes)-1] ^= 1
	a.Request = pem.EncodeToMemory(block)
	csr := &certificatesv1.CertificateSigningRequest{Spec: a.CertificateSigningRequestSpec}
	if name := NodeOf(csr); name != "node-1" {
		t.Errorf("the Node is %q", name)
	}
	assertDecision(t, Client(csr, Identity{Names: []string{"node-1"}}), true)
}

// FuzzServing: whatever is requested, an approval must be for the Node itself and for nothing that is not the Machine's.
func FuzzServing(f *testing.F) {
	f.Add("system:node:node-1", "system:nodes", "system:node:node-1", "system:nodes", "node-1", []byte{10, 0, 0, 1}, "server auth")
	f.Add("system:node:node-1", "system:nodes", "system:node:node-1", "system:nodes", "node-1,evil", []byte{10, 0, 0, 2}, "client auth,server auth")
	f.Add("", "", "", "", "", []byte{}, "")
	k := key(f)
	f.Fuzz(func(t *testing.T, user, groups, name, organization, names string, ip []byte, usages string) {
		request := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: split(organization)}, DNSNames: split(names)}
		if len(ip) == 4 || len(ip) == 16 {
			request.IPAddresses = []net.IP{ip}
		}
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Username: user, Groups: split(groups), Request: sign(t, k, request),
		}}
		for _, u := range split(usages) {
			csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.KeyUsage(u))
		}
		if Serving(csr, node1) != nil {
			return
		}
		parsed, err := parse(csr.Spec.Request)
		if err != nil {
			t.Fatal("approved what cannot be parsed")
		}
		for _, dns := range parsed.DNSNames {
			if !slices.Contains(node1.Names, dns) {
				t.Errorf("approved the name %q", dns)
			}
		}
		for _, address := range parsed.IPAddresses {
			if !slices.Contains(node1.Addresses, address.String()) {
				t.Errorf("approved the address %s", address)
			}
		}
		if user != "system:node:node-1" || parsed.Subject.CommonName != user || !slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) {
			t.Errorf("approved %q of %q for %q", parsed.Subject.CommonName, parsed.Subject.Organization, user)
		}
		if slices.Contains(csr.Spec.Usages, certificatesv1.UsageClientAuth) {
			t.Error("approved client authentication")
		}
	})
}

// FuzzClient: whatever is requested with a bootstrap token, an approval must be for one of the Machine's names and for a client alone.
func FuzzClient(f *testing.F) {
	f.Add("system:node:m1", "system:nodes", "", []byte{}, "client auth")
	f.Add("system:node:node-2", "system:nodes", "", []byte{}, "client auth")
	f.Add("system:node:m1", "system:nodes,system:masters", "", []byte{}, "client auth")
	f.Add("system:node:m1", "system:nodes", "node-1", []byte{10, 0, 0, 1}, "client auth")
	f.Add("system:node:", "", "", []byte{}, "")
	k := key(f)
	waiting := Identity{Names: []string{"m1", "node-1"}, Addresses: node1.Addresses}
	f.Fuzz(func(t *testing.T, name, organization, names string, ip []byte, usages string) {
		request := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: split(organization)}, DNSNames: split(names)}
		if len(ip) == 4 || len(ip) == 16 {
			request.IPAddresses = []net.IP{ip}
		}
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:bootstrap:abcdef", Request: sign(t, k, request),
		}}
		for _, u := range split(usages) {
			csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.KeyUsage(u))
		}
		if Client(csr, waiting) != nil {
			return
		}
		parsed, err := parse(csr.Spec.Request)
		if err != nil {
			t.Fatal("approved what cannot be parsed")
		}
		node, _ := strings.CutPrefix(parsed.Subject.CommonName, "system:node:")
		if !slices.Contains(waiting.Names, node) || !slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) {
			t.Errorf("approved %q of %q", parsed.Subject.CommonName, parsed.Subject.Organization)
		}
		if len(parsed.DNSNames)+len(parsed.IPAddresses) > 0 || slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
			t.Errorf("approved a certificate for %v, %v with %v", parsed.DNSNames, parsed.IPAddresses, csr.Spec.Usages)
		}
	})
}

// FuzzParse: bytes that are no request must not cause a panic.
func FuzzParse(f *testing.F) {
	good := serving()
	f.Add(sign(f, key(f), &good.CertificateRequest))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, signer := range []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName} {
			csr := &certificatesv1.CertificateSigningRequest{Spec: serving().CertificateSigningRequestSpec}
			csr.Spec.SignerName, csr.Spec.Request = signer, data
			NodeOf(csr)
			if err := Client(csr, node1); err == nil {
				t.Error("approved a second client certificate for a Machine that has a Node")
			}
			_ = Serving(csr, node1)
		}
	})
}

func split(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(part string) bool { return part == "" })
}

// TestKey: a token is bound to the name of a key, so two keys must have two, whatever else is parsed.
func TestKey(t *testing.T) {
	t.Parallel()
	nameOf := func(k *ecdsa.PrivateKey, request *x509.CertificateRequest) string {
		t.Helper()
		name, err := Key(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: sign(t, k, request)}})
		if err != nil || name == "" {
			t.Fatalf("the key is named %q, %v", name, err)
		}
		return name
	}
	a, b := key(t), key(t)
	one := nameOf(a, &x509.CertificateRequest{})
	if again := nameOf(a, &x509.CertificateRequest{DNSNames: []string{"x"}}); again != one {
		t.Errorf("one key is named %q and %q", one, again)
	}
	if other := nameOf(b, &x509.CertificateRequest{}); other == one {
		t.Errorf("two keys are named %q", one)
	}
	if name, err := Key(&certificatesv1.CertificateSigningRequest{}); err == nil {
		t.Errorf("nothing is named %q", name)
	}
}
