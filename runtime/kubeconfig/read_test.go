// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/runtime/requesterror"
)

var cluster = client.ObjectKey{Namespace: "n", Name: "c"}

func secretWith(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c-kubeconfig", UID: "u"}, Data: data}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		content string
		problem Problem
		message string
	}{
		"finds the kubeconfig":       {secretWith(map[string][]byte{"value": []byte("x")}), "x", "", ""},
		"misses the Secret":          {nil, "", Missing, `Secret "n/c-kubeconfig" does not exist; create it with the kubeconfig in data.value`},
		"misses the key":             {secretWith(map[string][]byte{"kubeconfig": []byte("x")}), "", Invalid, `Secret "n/c-kubeconfig" has no kubeconfig in data.value`},
		"finds an empty value":       {secretWith(map[string][]byte{"value": {}}), "", Invalid, `Secret "n/c-kubeconfig" has no kubeconfig in data.value`},
		"finds another Secret's key": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d-kubeconfig"}, Data: map[string][]byte{"value": []byte("x")}}, "", Missing, `Secret "n/c-kubeconfig" does not exist; create it with the kubeconfig in data.value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := fake.NewClientBuilder()
			if test.secret != nil {
				builder = builder.WithObjects(test.secret)
			}
			got, err := Read(t.Context(), builder.Build(), cluster)
			if got.Content != test.content || problemOf(err) != test.problem || err != nil && err.Error() != test.message {
				t.Errorf("got %q, %v", got.Content, err)
			}
			if known := test.secret != nil && test.problem != Missing; known != (got.ResourceVersion != "") || known != (got.UID == "u") {
				t.Errorf("the Secret is %q at %q", got.UID, got.ResourceVersion)
			}
		})
	}
}

// TestReadReportsWhyTheSecretIsNotReadable in words that are the same each time.
func TestReadReportsWhyTheSecretIsNotReadable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no answer":    {context.DeadlineExceeded, `reading Secret "n/c-kubeconfig" from the management cluster: no answer in time`},
		"a long error": {errors.New(strings.Repeat("x", 2*requesterror.MaxMessage)), `reading Secret "n/c-kubeconfig" from the management cluster: ` + strings.Repeat("x", requesterror.MaxMessage) + "…"},
	} {
		failing := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return test.err
			},
		}).Build()
		got, err := Read(t.Context(), failing, cluster)
		if got != (Kubeconfig{}) || problemOf(err) != Unreadable || err.Error() != test.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestSecretKeyIsTheInverseOfClusterKey(t *testing.T) {
	t.Parallel()
	key := SecretKey(cluster)
	if want := (client.ObjectKey{Namespace: "n", Name: "c-kubeconfig"}); key != want {
		t.Errorf("the key is %v, want %v", key, want)
	}
	if back, found := ClusterKey(key); !found || back != cluster {
		t.Errorf("the Cluster is %v, %t", back, found)
	}
}
