// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	credentialProviderConfig = "/etc/kubernetes/credential-providers.yaml"
	credentialProviderFolder = scriptFolder + "/credential-providers"
	defaultCredentialCache   = 12 * time.Hour
)

// addCredentialProviders tells the kubelet which programs give credentials for which images. Their arguments and
// environment may hold secrets, so that only root reads them.
func addCredentialProviders(n *Node, _ distribution, in Input) error {
	providers := in.Spec.Kubelet.CredentialProviders
	if len(providers) == 0 {
		return nil
	}
	config := kubeletv1.CredentialProviderConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1.SchemeGroupVersion.String(), Kind: "CredentialProviderConfig"},
	}
	for _, p := range providers {
		config.Providers = append(config.Providers, credentialProvider(p))
		if len(p.Binary) > 0 {
			n.Downloads = append(n.Downloads, download(p.Binary, Download{Name: p.Name, Target: credentialProviderFolder + "/" + p.Name}))
		}
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing CredentialProviderConfig: %w", err)
	}
	n.Files = append(n.Files, File{Path: credentialProviderConfig, Mode: 0o600, Content: content})
	return nil
}

func credentialProvider(p bootstrapv1.CredentialProvider) kubeletv1.CredentialProvider {
	cache := defaultCredentialCache
	if p.CacheSeconds != nil {
		cache = time.Duration(*p.CacheSeconds) * time.Second
	}
	out := kubeletv1.CredentialProvider{
		Name:                 p.Name,
		MatchImages:          p.MatchImages,
		DefaultCacheDuration: ptr.To(metav1.Duration{Duration: cache}),
		APIVersion:           "credentialprovider.kubelet.k8s.io/v1",
		Args:                 p.Args,
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		out.Env = append(out.Env, kubeletv1.ExecEnvVar{Name: name, Value: p.Env[name]})
	}
	return out
}
