// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package verdict decides whether the certificate request of a kubelet may be approved. It is pure: it sees the
// request and what is known of the Machine, and nothing else. Finding that Machine, approving and telling people is
// the business of package csrapproval, its only caller.
package verdict

import (
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
)

// Host is what is known of the Machine that a request must come from.
type Host struct {
	// NodeName is the name of the Machine's Node; empty while that has not joined.
	NodeName string

	// Names and Addresses are all that the Machine's infrastructure says it is called and reached by.
	Names, Addresses []string
}

// Refusal says why a request is left alone.
type Refusal struct{ Reason string }

// Error is the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// NodeOf is the name of the Node that a request is about, by its requester for a serving certificate and by its
// subject for a client certificate. It is empty if the request is not a kubelet's.
func NodeOf(csr *certificatesv1.CertificateSigningRequest) string {
	switch csr.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName:
		name, _ := strings.CutPrefix(csr.Spec.Username, nodePrefix)
		if name == csr.Spec.Username {
			return ""
		}
		return name
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		request, err := parse(csr.Spec.Request)
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
func Serving(csr *certificatesv1.CertificateSigningRequest, host Host) error {
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
	for _, name := range request.DNSNames {
		if !slices.Contains(host.Names, name) {
			return refuse("the Machine does not have the name %q", name)
		}
	}
	for _, ip := range request.IPAddresses {
		if !slices.ContainsFunc(host.Addresses, func(a string) bool { return ip.Equal(net.ParseIP(a)) }) {
			return refuse("the Machine does not have the address %s", ip)
		}
	}
	return nil
}

// Client decides on a request for a kubelet's first client certificate, made with the bootstrap token of the
// Machine. It returns nil to approve: the name of the Node belongs to that Machine, which has no Node yet.
func Client(csr *certificatesv1.CertificateSigningRequest, host Host) error {
	name := NodeOf(csr)
	if name == "" {
		return refuse("the subject is not that of a Node")
	}
	if host.NodeName != "" {
		return refuse("the Machine already has the Node %q", host.NodeName)
	}
	if !slices.Contains(host.Names, name) {
		return refuse("the Machine does not have the name %q", name)
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

func parse(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, refuse("the request is not one PEM block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, refuse("the request cannot be parsed")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, refuse("the signature of the request is not valid")
	}
	return request, nil
}
