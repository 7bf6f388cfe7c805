// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// addMirrors writes a hosts.toml for each registry with mirrors, as containerd reads it since 1.5:
// https://github.com/containerd/containerd/blob/main/docs/hosts.md
func addMirrors(n *Node, mirrors []bootstrapv1.RegistryMirror) error {
	for m, mirror := range mirrors {
		field, folder := "spec.containerd.mirrors["+itoa(m)+"]", registryFolder+"/"+mirror.Registry
		settings, err := tlsSettings(n, mirror, field, folder)
		if err != nil {
			return err
		}
		var hosts strings.Builder
		for i, endpoint := range mirror.Endpoints {
			if i > 0 {
				hosts.WriteString("\n")
			}
			if slices.Contains(mirror.Endpoints[:i], endpoint) {
				return invalid(field+".endpoints["+itoa(i)+"]", "is there twice, which containerd does not read")
			}
			host, err := quote.TOML(endpoint)
			if err != nil {
				return invalid(field+".endpoints["+itoa(i)+"]", "%v", err)
			}
			hosts.WriteString("[host." + host + "]\n  capabilities = [\"pull\", \"resolve\"]\n" + settings)
			if hasAPIPath(endpoint) {
				hosts.WriteString("  override_path = true\n")
			}
		}
		n.Files = append(n.Files, File{Path: folder + "/hosts.toml", Mode: 0o644, Content: []byte(hosts.String())})
	}
	return nil
}

// tlsSettings are the lines of a mirror about certificates. It writes the file with those that are trusted.
func tlsSettings(n *Node, mirror bootstrapv1.RegistryMirror, field, folder string) (string, error) {
	switch {
	case ptr.Deref(mirror.InsecureSkipTLSVerify, false):
		return "  skip_verify = true\n", nil
	case mirror.TrustedCAs == "":
		return "", nil
	}
	if err := checkCertificates(field+".trustedCAs", mirror.TrustedCAs); err != nil {
		return "", err
	}
	file := folder + "/ca.pem"
	path, err := quote.TOML(file)
	if err != nil {
		return "", invalid(field+".registry", "%v", err)
	}
	n.Files = append(n.Files, File{Path: file, Mode: 0o644, Content: []byte(strings.TrimSpace(mirror.TrustedCAs) + "\n")})
	return "  ca = " + path + "\n", nil
}

// hasAPIPath reports whether the path of a mirror is that of the registry API itself, such as /v2/docker. To any other path
// containerd appends /v2.
func hasAPIPath(endpoint string) bool {
	parsed, err := url.Parse(endpoint)
	return err == nil && slices.Contains(strings.Split(parsed.Path, "/"), "v2")
}
