// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether the certificate request of a kubelet may be approved. It is pure: its input is the
// request and what is certain of the Machine. Package csrapproval, its only caller, finds that Machine, approves, and
// makes events.
package policy

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	nodePrefix = "system:node:"
	nodesGroup = "system:nodes"

	// maxKeyBits is how long an RSA key may be: a signature of 28,000 bits takes a CPU for a tenth of a second. Kubelets have
	// keys of an elliptic curve.
	maxKeyBits = 4096
)

// Identity is what is certain of the Machine that a request must come from.
type Identity struct {
	// NodeName is the name of the Machine's Node; empty while that has not joined.
	NodeName string

	// Names and Addresses are those of the Machine that the cloud assigned. What the guest itself reports is
	// not among them.
	Names, Addresses []string

	// Taken are names and addresses that are never this Machine's, whatever the cloud assigned: those of
	// the control plane, of the API server in the cluster's network, and of the other Machines.
	Taken Reserved
}

// Reserved are the names and addresses of others.
type Reserved struct{ Names, Addresses []string }

// Refusal is why a request is not approved.
type Refusal struct{ Reason string }

// Error is the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// NodeOf is the name of the Node that a request is about, by its requester for a serving certificate and by its
// subject for a client certificate. It is empty if the request is not a kubelet's. The signature of the request is not
// verified: that costs much more than to read it.
func NodeOf(csr *certificatesv1.CertificateSigningRequest) string {
	switch csr.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName:
		name, _ := strings.CutPrefix(csr.Spec.Username, nodePrefix)
		if name == csr.Spec.Username {
			return ""
		}
		return name
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		request, err := decode(csr.Spec.Request)
		if err != nil {
			return ""
		}
		name, found := strings.CutPrefix(request.Subject.CommonName, nodePrefix)
		if !found {
			return ""
		}
		return name
	}
	return ""
}

// Serving decides on a kubelet's request for a serving certificate. It returns nil to approve: the requester is
// the Node itself, and every name and address in the request belongs to the Machine.
func Serving(csr *certificatesv1.CertificateSigningRequest, host Identity) error {
	if host.NodeName == "" || csr.Spec.Username != nodePrefix+host.NodeName || !slices.Contains(csr.Spec.Groups, nodesGroup) {
		return refuse("the requester %q is not the Node of the Machine", csr.Spec.Username)
	}
	request, err := nodeRequest(csr, host.NodeName)
	if err != nil {
		return err
	}
	if err := onlyUsages(csr, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return refuse("the request names no host")
	}
	if err := host.checkName(host.NodeName); err != nil {
		return err
	}
	for _, name := range request.DNSNames {
		if err := host.checkName(name); err != nil {
			return err
		}
	}
	for _, ip := range request.IPAddresses {
		if err := host.checkAddress(ip); err != nil {
			return err
		}
	}
	return nil
}

// checkName returns why a certificate must not have the name; nil if it may.
func (h Identity) checkName(name string) error {
	same := func(other string) bool { return strings.EqualFold(other, name) }
	switch {
	case !slices.Contains(h.Names, name):
		return refuse("the Machine does not have the name %q: it is not the Machine's name and not among status.cloudAddresses", name)
	case reservedName(name):
		return refuse("the name %q is reserved for the API server or the host itself", name)
	case slices.ContainsFunc(h.Taken.Names, same):
		return refuse("the name %q belongs to the control plane or to another Machine", name)
	}
	return nil
}

// checkAddress returns why a certificate must not have the address; nil if it may.
func (h Identity) checkAddress(ip net.IP) error {
	same := func(other string) bool { return ip.Equal(net.ParseIP(other)) }
	switch {
	case !slices.ContainsFunc(h.Addresses, same):
		return refuse("the Machine does not have the address %s, or only its guest reports it; --trust-reported-addresses of the bootstrap controller accepts what guests report, and infrastructure providers of other projects", ip)
	case ip.IsLoopback() || ip.Equal(net.IPv4bcast) || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		return refuse("the address %s is no address of one host alone", ip)
	case slices.ContainsFunc(h.Taken.Addresses, same):
		return refuse("the address %s belongs to the control plane or to another Machine", ip)
	}
	return nil
}

// reservedName reports whether a name resolves to the API server or to the host itself everywhere.
func reservedName(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	for _, reserved := range []string{"kubernetes", "localhost"} {
		if name == reserved || strings.HasPrefix(name, reserved+".") {
			return true
		}
	}
	for _, domain := range []string{".localhost", ".svc", ".cluster.local"} {
		if strings.HasSuffix(name, domain) {
			return true
		}
	}
	return name == ""
}

// Client decides on a request for a kubelet's first client certificate, made with the bootstrap token of the
// Machine. It returns nil to approve: the name of the Node belongs to that Machine, which has no Node yet.
func Client(csr *certificatesv1.CertificateSigningRequest, host Identity) error {
	name := NodeOf(csr)
	if name == "" {
		return refuse("the subject is not that of a Node")
	}
	if host.NodeName != "" {
		return refuse("the Machine already has the Node %q", host.NodeName)
	}
	if err := host.checkName(name); err != nil {
		return err
	}
	request, err := nodeRequest(csr, name)
	if err != nil {
		return err
	}
	if len(request.DNSNames)+len(request.IPAddresses) > 0 {
		return refuse("a client certificate must not name hosts")
	}
	return onlyUsages(csr, certificatesv1.UsageClientAuth)
}

// nodeRequest checks the part that both kinds of certificates share.
func nodeRequest(csr *certificatesv1.CertificateSigningRequest, node string) (*x509.CertificateRequest, error) {
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return nil, err
	}
	if request.Subject.CommonName != nodePrefix+node || !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return nil, refuse("the subject must be %s%s of %s", nodePrefix, node, nodesGroup)
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 {
		return nil, refuse("the request has e-mail addresses or URIs")
	}
	return request, nil
}

func onlyUsages(csr *certificatesv1.CertificateSigningRequest, purpose certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{purpose, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	for _, usage := range csr.Spec.Usages {
		if !slices.Contains(allowed, usage) {
			return refuse("the usage %q is not one of this certificate", usage)
		}
	}
	if !slices.Contains(csr.Spec.Usages, purpose) {
		return refuse("the usage %q is missing", purpose)
	}
	return nil
}

// Key names the public key of a request.
func Key(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(request.RawSubjectPublicKeyInfo)), nil
}

// parse returns a request whose signature is valid.
func parse(data []byte) (*x509.CertificateRequest, error) {
	request, err := decode(data)
	if err != nil {
		return nil, err
	}
	if key, is := request.PublicKey.(*rsa.PublicKey); is && key.N.BitLen() > maxKeyBits {
		return nil, refuse("the key has more than %d bits", maxKeyBits)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, refuse("the signature of the request is not valid")
	}
	return request, nil
}

func decode(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, refuse("the request is not one PEM block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, refuse("the request cannot be parsed")
	}
	return request, nil
}
