// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	credentialProviderConfig = "/etc/kubernetes/credential-providers.yaml"
	credentialProviderFolder = scriptFolder + "/credential-providers"
	defaultCredentialCache   = 12 * time.Hour
)

// addCredentialProviders configures which programs the kubelet gets credentials from for which images. Their arguments and
// environment may hold secrets, so that only root reads them.
func addCredentialProviders(n *Node, _ distribution, in Input) error {
	providers := in.Spec.Kubelet.CredentialProviders
	if len(providers) == 0 {
		return nil
	}
	config := kubeletv1.CredentialProviderConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1.SchemeGroupVersion.String(), Kind: "CredentialProviderConfig"},
	}
	for i, p := range providers {
		if err := checkCredentialProvider(p, "spec.kubelet.credentialProviders["+itoa(i)+"]"); err != nil {
			return err
		}
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

// checkCredentialProvider refuses what YAML, or the environment of a program, cannot contain.
func checkCredentialProvider(p bootstrapv1.CredentialProvider, field string) error {
	unprintable := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	for i, arg := range p.Args {
		if strings.ContainsFunc(arg, unprintable) {
			return invalid(field+".args["+itoa(i)+"]", "must not contain control characters")
		}
	}
	for name, value := range p.Env {
		if problems := validation.IsEnvVarName(name); len(problems) > 0 {
			return invalid(field+".env", "has a name that no variable can have: %s", problems[0])
		}
		if strings.ContainsFunc(value, unprintable) {
			return invalid(field+".env", "the value of %s must not contain control characters", name)
		}
	}
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
		DefaultCacheDuration: new(metav1.Duration{Duration: cache}),
		APIVersion:           "credentialprovider.kubelet.k8s.io/v1",
		Args:                 p.Args,
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		out.Env = append(out.Env, kubeletv1.ExecEnvVar{Name: name, Value: p.Env[name]})
	}
	return out
}
