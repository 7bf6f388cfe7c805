// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	// minSecretWord is how long a word of a file is that counts as secret; shorter ones would hide ordinary words.
	minSecretWord = 6

	// maxSecretWords is the most bytes that SecretWords returns.
	maxSecretWords = 64 << 10

	// EveryWord stands for all words.
	EveryWord = "*"
)

// SecretWords are what must not be shown of the output of a host: the bootstrap token, the credentials of registries, the
// activation key or the password of a subscription, and the words of files whose content is that of a Secret. Names of users
// are not among them: short ones would hide ordinary words. It is EveryWord alone where they are too many.
func SecretWords(in Input) []string {
	words := map[string]bool{}
	add := func(word string) {
		if word != "" {
			words[word] = true
		}
	}
	add(in.Token)
	subscription := in.Spec.RHEL.Subscription
	for _, from := range []bootstrapv1.SecretKeyReference{subscription.ActivationKeyFrom, subscription.PasswordFrom} {
		if from.Name != "" {
			add(strings.TrimSpace(string(in.Secrets[from])))
		}
	}
	auths, _ := parseDockerConfig(in) // Describe reports an error
	for _, c := range auths {
		add(c.Password)
		add(c.Auth)
		decoded, _ := base64.StdEncoding.DecodeString(c.Auth) // Describe reports an error
		_, password, _ := strings.Cut(string(decoded), ":")
		add(password)
	}
	for _, f := range in.Spec.Files {
		if f.ContentFrom.Name == "" {
			continue
		}
		content := in.Secrets[f.ContentFrom]
		if len(content) > maxSecretWords {
			return []string{EveryWord}
		}
		for _, word := range bytes.FieldsFunc(content, separatesWords) {
			if len(word) >= minSecretWord {
				add(string(word))
			}
		}
	}
	size := 0
	for word := range words {
		size += len(word) + 1
	}
	if size > maxSecretWords {
		return []string{EveryWord}
	}
	return slices.Sorted(maps.Keys(words))
}

// separatesWords reports whether a character ends a word in the configuration files of most programs. A password may have
// other punctuation.
func separatesWords(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`=,", r) }
