// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
)

// addTrustedCAs gives the host the operator's certificate authorities. It trusts them before anything is downloaded.
func addTrustedCAs(n *Node, os distribution, in Input) error {
	if in.Spec.TrustedCAs == "" {
		return nil
	}
	if err := checkCertificates("spec.trustedCAs", in.Spec.TrustedCAs); err != nil {
		return err
	}
	n.Files = append(n.Files, File{Path: os.trustFile, Mode: 0o644, Content: []byte(strings.TrimSpace(in.Spec.TrustedCAs) + "\n")})
	return nil
}

// checkCertificates refuses what is not PEM certificates and nothing else.
func checkCertificates(field, certificates string) error {
	rest, count := []byte(certificates), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return invalid(field, "holds something else than PEM certificates")
		}
		count++
	}
	if count == 0 || strings.TrimSpace(string(rest)) != "" {
		return invalid(field, "must be PEM certificates and nothing else")
	}
	return nil
}
