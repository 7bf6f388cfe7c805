// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"drover.io/bootstrap/node/quote"
)

const (
	credentialsField = "spec.containerd.registryCredentialsFrom"

	// maxCredentials is how many bytes a Docker configuration may have, which has some 200 per registry. Parsed it takes
	// many times as much.
	maxCredentials = 64 << 10

	// kubeletCredentials is where the kubelet looks for credentials of registries first.
	kubeletCredentials = "/var/lib/kubelet/config.json"
)

// credential is how a host proves itself to one registry. The kubelet reads no identity tokens.
type credential struct {
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Auth     string `json:"auth,omitempty"`
}

// addRegistryCredentials gives the kubelet the credentials of the Secret, and nothing else that it holds.
func addRegistryCredentials(n *Node, _ distribution, in Input) error {
	auths, err := parseDockerConfig(in)
	if err != nil || auths == nil {
		return err
	}
	content, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return fmt.Errorf("writing registry credentials: %w", err)
	}
	n.Files = append(n.Files, File{Path: kubeletCredentials, Mode: 0o600, Content: append(content, '\n')})
	return nil
}

// parseDockerConfig are those of the Secret, by registry; nil if there is none. No error quotes a value.
func parseDockerConfig(in Input) (map[string]credential, error) {
	ref := in.Spec.Containerd.RegistryCredentialsFrom
	if ref.Name == "" {
		return nil, nil
	}
	if len(in.Secrets[ref]) > maxCredentials {
		return nil, invalid(credentialsField, "key %q of Secret %q has more than %d bytes", ref.Key, ref.Name, maxCredentials)
	}
	var config struct {
		Auths map[string]credential `json:"auths"`
	}
	if err := json.Unmarshal(in.Secrets[ref], &config); err != nil || len(config.Auths) == 0 {
		return nil, invalid(credentialsField, "key %q of Secret %q is not a Docker configuration with auths: make it with kubectl create secret docker-registry", ref.Key, ref.Name)
	}
	for registry, c := range config.Auths {
		if c.Auth == "" && (c.Username == "" || c.Password == "") {
			return nil, invalid(credentialsField, "Secret %q has neither auth nor username and password for the registry %q", ref.Name, registry)
		}
		if decoded, err := base64.StdEncoding.DecodeString(c.Auth); c.Auth != "" && (err != nil || !strings.Contains(string(decoded), ":")) {
			return nil, invalid(credentialsField, "Secret %q has an auth for the registry %q that is not user:password in base64", ref.Name, registry)
		}
	}
	return config.Auths, nil
}

// containerdAuth is the part of containerd's configuration for the registries that the kubelet does not send
// credentials for: that of the sandbox image, and mirrors.
func containerdAuth(in Input) ([]byte, error) {
	auths, err := parseDockerConfig(in)
	if err != nil {
		return nil, err
	}
	byHost := map[string]credential{}
	for _, registry := range slices.Sorted(maps.Keys(auths)) {
		host := registryHost(registry)
		if _, known := byHost[host]; !known { // the shortest path of a host comes first
			byHost[host] = auths[registry]
		}
	}
	hosts := []string{registryHost(sandboxImage(in.Spec.Containerd))}
	for _, mirror := range in.Spec.Containerd.Mirrors {
		for _, endpoint := range mirror.Endpoints {
			hosts = append(hosts, registryHost(endpoint))
		}
	}
	slices.Sort(hosts)
	var b strings.Builder
	for _, host := range slices.Compact(hosts) {
		c, found := byHost[host]
		if !found {
			continue
		}
		if err := writeAuth(&b, host, c); err != nil {
			return nil, invalid(credentialsField, "what Secret %q has for the registry %q %v", in.Spec.Containerd.RegistryCredentialsFrom.Name, host, err)
		}
	}
	return []byte(b.String()), nil
}

// registryHost is the host from which containerd pulls an image, a URL or an entry of a Docker configuration.
func registryHost(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		s = u.Host
	}
	host, _, path := strings.Cut(s, "/")
	if image := path && !strings.ContainsAny(host, ".:") && host != "localhost"; image {
		host = "docker.io"
	}
	if host == "docker.io" || host == "index.docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

func writeAuth(b *strings.Builder, host string, c credential) error {
	name, err := quote.TOML(host)
	if err != nil {
		return err
	}
	b.WriteString("\n    [plugins.\"io.containerd.grpc.v1.cri\".registry.configs." + name + ".auth]\n")
	for _, v := range [][2]string{{"username", c.Username}, {"password", c.Password}, {"auth", c.Auth}} {
		if v[1] == "" {
			continue
		}
		value, err := quote.TOML(v[1])
		if err != nil {
			return err
		}
		b.WriteString("      " + v[0] + " = " + value + "\n")
	}
	return nil
}
