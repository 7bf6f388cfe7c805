// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/kubeconfig"
)

func TestReadKubeconfig(t *testing.T) {
	t.Parallel()
	live := liveClient(t, managementServer(t))
	tests := map[string]struct {
		data    map[string][]byte // nil for no Secret
		want    string
		problem kubeconfig.Problem
	}{
		"finds it":              {map[string][]byte{"value": []byte("x")}, "x", ""},
		"misses the Secret":     {nil, "", kubeconfig.Missing},
		"misses the key":        {map[string][]byte{"kubeconfig": []byte("x")}, "", kubeconfig.Invalid},
		"finds an empty string": {map[string][]byte{"value": {}}, "", kubeconfig.Invalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeconfig-"}}
			if err := live.Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			want := kubeconfig.Kubeconfig{Content: test.want}
			if test.data != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "c-kubeconfig"}, Data: test.data}
				if err := live.Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				want.UID, want.ResourceVersion = secret.UID, secret.ResourceVersion
			}
			got, err := kubeconfig.Read(t.Context(), live, client.ObjectKey{Namespace: namespace.Name, Name: "c"})
			problem := kubeconfig.Problem("")
			if bad, is := errors.AsType[*kubeconfig.Error](err); is {
				problem = bad.Problem
			}
			if got != want || problem != test.problem {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestNotConnectedError(t *testing.T) {
	t.Parallel()
	connections := New(Options{})
	_, err := connections.Get(client.ObjectKey{Namespace: "n", Name: "c"})
	if !errors.Is(err, ErrNotConnected) || !IsNotConnected(err) {
		t.Errorf("%v is not ErrNotConnected", err)
	}
	var typed *NotConnectedError
	if !errors.As(err, &typed) {
		t.Fatalf("%v is no NotConnectedError", err)
	}
	want := &NotConnectedError{
		Cluster: client.ObjectKey{Namespace: "n", Name: "c"},
		Reason:  ReasonConnecting, Message: "no attempt to connect has begun yet",
	}
	if diff := cmp.Diff(want, typed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
