// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// The user of the subscription has a name of one letter, which is in ordinary words.
func TestSecretWordsAreThoseOfAllReferences(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.RHEL)
	in.Token = "abcdef.0123456789abcdef"
	file := bootstrapv1.SecretKeyReference{Name: "app", Key: "config"}
	in.Spec.Files = []bootstrapv1.File{{Path: "/etc/app", ContentFrom: file}, {Path: "/etc/public", Content: new("everybody knows")}}
	in.Spec.Containerd.RegistryCredentialsFrom = bootstrapv1.SecretKeyReference{Name: "registry", Key: "auth"}
	in.Spec.RHEL.Subscription.ActivationKeyFrom = bootstrapv1.SecretKeyReference{Name: "rhel", Key: "key"}
	in.Spec.RHEL.Subscription.UsernameFrom = bootstrapv1.SecretKeyReference{Name: "rhel", Key: "user"}
	in.Spec.RHEL.Subscription.PasswordFrom = bootstrapv1.SecretKeyReference{Name: "rhel", Key: "password"}
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{
		file: []byte("user=operator\npassword: \"p@ss:w0rd!\"\nport = 80\n"),
		in.Spec.Containerd.RegistryCredentialsFrom:  []byte(`{"auths":{"registry.example.test":{"username":"puller","password":"short","auth":"cHVsbGVyOmZ1bGw="}}}`),
		in.Spec.RHEL.Subscription.ActivationKeyFrom: []byte("key-1\n"),
		in.Spec.RHEL.Subscription.UsernameFrom:      []byte("a"),
		in.Spec.RHEL.Subscription.PasswordFrom:      []byte("two words\n"),
		{Name: "", Key: "x"}:                        []byte("not referred to"),
	}
	want := []string{"abcdef.0123456789abcdef", "cHVsbGVyOmZ1bGw=", "full", "key-1", "operator", "p@ss:w0rd!", "password:", "short", "two words"}
	if diff := cmp.Diff(want, SecretWords(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecretWordsAreBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 9_000 {
		fmt.Fprintf(&many, "w%07d\n", i)
	}
	for name, content := range map[string][]byte{
		"a long word":    bytes.Repeat([]byte("x"), maxSecretWords+1),
		"too many words": []byte(many.String()),
	} {
		in := minimal(bootstrapv1.Ubuntu)
		ref := bootstrapv1.SecretKeyReference{Name: "app", Key: "config"}
		in.Spec.Files = []bootstrapv1.File{{Path: "/etc/app", ContentFrom: ref}}
		in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{ref: content}
		if got := SecretWords(in); len(got) != 1 || got[0] != EveryWord {
			t.Errorf("%s: %d words, want %q", name, len(got), EveryWord)
		}
	}
}
