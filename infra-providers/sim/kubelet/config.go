// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"drover.io/infra-providers/sim/systemd"
	"drover.io/infra-providers/sim/userdata"
)

// Config is the configuration of the host's kubelet.
type Config struct {
	NodeName   string
	NodeIP     string
	ProviderID string
	Labels     map[string]string
	Taints     []corev1.Taint
	// Version is the kubelet's version in the user data; empty without one.
	Version string

	// Server, CA and Token come from the bootstrap kubeconfig.
	Server string
	CA     []byte
	Token  string

	Kubelet kubeletv1beta1.KubeletConfiguration
	// Warnings are what a kubelet would log without failing.
	Warnings []string
}

// removedFlags make a current kubelet exit.
var removedFlags = []string{"network-plugin", "cni-bin-dir", "cni-conf-dir", "container-runtime", "dynamic-config-dir", "docker-endpoint", "keep-terminated-pod-volumes"}

// Load returns the configuration of the kubelet from the files of a host, or an error if it cannot run.
func Load(disk *userdata.Disk) (*Config, error) {
	words, err := systemd.Command(disk.Files, "kubelet.service")
	if err != nil {
		return nil, fmt.Errorf("kubelet does not start: %w", err)
	}
	set := flags(words[1:])
	for _, name := range removedFlags {
		if _, ok := set[name]; ok {
			return nil, fmt.Errorf("kubelet exits: unknown flag: --%s", name)
		}
	}
	config := &Config{
		NodeName:   strings.ToLower(cmp.Or(set["hostname-override"], disk.Hostname)),
		NodeIP:     set["node-ip"],
		ProviderID: set["provider-id"],
		Version:    kubernetesVersion(disk),
	}
	for _, step := range []func(*userdata.Disk, map[string]string) error{
		config.readConfiguration, config.readBootstrap, config.readLabels, config.readTaints,
	} {
		if err := step(disk, set); err != nil {
			return nil, fmt.Errorf("kubelet exits: %w", err)
		}
	}
	if config.NodeName == "" {
		return nil, errors.New("kubelet exits: the host has no name")
	}
	return config, nil
}

// flags reads --name=value and --name value.
func flags(words []string) map[string]string {
	set := map[string]string{}
	for i, word := range words {
		name, ok := strings.CutPrefix(word, "--")
		if !ok {
			continue
		}
		if name, value, ok := strings.Cut(name, "="); ok {
			set[name] = value
			continue
		}
		set[name] = "true"
		if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			set[name] = words[i+1]
		}
	}
	return set
}

func (c *Config) readConfiguration(disk *userdata.Disk, set map[string]string) error {
	name := set["config"]
	if name == "" {
		return nil
	}
	content, ok := disk.Files[name]
	if !ok {
		return fmt.Errorf("--config=%s: no such file", name)
	}
	if err := yaml.Unmarshal(content, &c.Kubelet); err != nil {
		return fmt.Errorf("--config=%s: %w", name, err)
	}
	if c.Kubelet.APIVersion != "kubelet.config.k8s.io/v1beta1" || c.Kubelet.Kind != "KubeletConfiguration" {
		return fmt.Errorf("--config=%s: is %s %s, not kubelet.config.k8s.io/v1beta1 KubeletConfiguration", name, c.Kubelet.APIVersion, c.Kubelet.Kind)
	}
	if err := yaml.UnmarshalStrict(content, &kubeletv1beta1.KubeletConfiguration{}); err != nil {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--config=%s: using lenient decoding: %v", name, err))
	}
	c.ProviderID = cmp.Or(c.ProviderID, c.Kubelet.ProviderID)
	return nil
}

func (c *Config) readBootstrap(disk *userdata.Disk, set map[string]string) error {
	name := set["bootstrap-kubeconfig"]
	if name == "" {
		return errors.New("--bootstrap-kubeconfig is not set, so it cannot get a certificate")
	}
	content, ok := disk.Files[name]
	if !ok {
		return fmt.Errorf("--bootstrap-kubeconfig=%s: no such file", name)
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return fmt.Errorf("--bootstrap-kubeconfig=%s: %w", name, err)
	}
	if err := c.connectBy(disk, kubeconfig); err != nil {
		return fmt.Errorf("--bootstrap-kubeconfig=%s: %w", name, err)
	}
	return nil
}

func (c *Config) connectBy(disk *userdata.Disk, kubeconfig *clientcmdapi.Config) error {
	current, ok := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if !ok {
		return fmt.Errorf("current-context %q does not exist", kubeconfig.CurrentContext)
	}
	cluster, ok := kubeconfig.Clusters[current.Cluster]
	if !ok {
		return fmt.Errorf("cluster %q does not exist", current.Cluster)
	}
	user, ok := kubeconfig.AuthInfos[current.AuthInfo]
	if !ok {
		return fmt.Errorf("user %q does not exist", current.AuthInfo)
	}
	c.Server, c.CA, c.Token = cluster.Server, cluster.CertificateAuthorityData, user.Token
	if len(c.CA) == 0 && cluster.CertificateAuthority != "" {
		c.CA = disk.Files[cluster.CertificateAuthority]
	}
	if c.Token == "" && user.TokenFile != "" {
		c.Token = strings.TrimSpace(string(disk.Files[user.TokenFile]))
	}
	switch {
	case !strings.HasPrefix(c.Server, "https://"):
		return fmt.Errorf("server %q is not https", c.Server)
	case len(c.CA) == 0:
		return errors.New("it has no certificate authority")
	case c.Token == "":
		return errors.New("its user has no token")
	}
	return nil
}

func (c *Config) readLabels(_ *userdata.Disk, set map[string]string) error {
	c.Labels = map[string]string{}
	for pair := range strings.SplitSeq(set["node-labels"], ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		c.Labels[key] = value
	}
	return nil
}

func (c *Config) readTaints(_ *userdata.Disk, set map[string]string) error {
	c.Taints = slices.Clone(c.Kubelet.RegisterWithTaints)
	if _, ok := set["register-with-taints"]; ok {
		c.Taints = nil
	}
	for text := range strings.SplitSeq(set["register-with-taints"], ",") {
		if text == "" {
			continue
		}
		pair, effect, ok := strings.Cut(text, ":")
		if !ok {
			return fmt.Errorf("--register-with-taints: taint %q has no effect", text)
		}
		key, value, _ := strings.Cut(pair, "=")
		c.Taints = append(c.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	if set["cloud-provider"] == "external" {
		c.Taints = append(c.Taints, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

var versions = regexp.MustCompile(`(?i)(?:kubelet[\w-]*|kubernetes[\w-]*|k8s|release|dl\.k8s\.io)[=/:_ "']+v?(1\.\d+\.\d+)`)

// kubernetesVersion returns the version of Kubernetes that the user data installs.
func kubernetesVersion(disk *userdata.Disk) string {
	texts := slices.Clone(disk.Commands)
	for _, name := range slices.Sorted(maps.Keys(disk.Files)) {
		texts = append(texts, string(disk.Files[name]))
	}
	for _, text := range texts {
		if match := versions.FindStringSubmatch(text); match != nil {
			return "v" + match[1]
		}
	}
	return ""
}
