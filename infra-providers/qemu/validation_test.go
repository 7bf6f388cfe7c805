// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// TestSizesHaveNoExponent: a quantity such as 1e-2147483647 takes minutes to decode, in every program that reads it.
func TestSizesHaveNoExponent(t *testing.T) {
	t.Parallel()
	cluster := shared.Cluster(t)
	namespace, err := cluster.Namespace(t.Context(), "sizes")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		field    string
		value    any
		accepted bool
	}{
		"memory":                           {"memory", "4Gi", true},
		"memory with a fraction":           {"memory", "1.5Gi", true},
		"memory with an exponent":          {"memory", "1e10", false},
		"a disk":                           {"diskSize", "20Gi", true},
		"a disk in bytes":                  {"diskSize", "20000000000", true},
		"a disk with a negative exponent":  {"diskSize", "1e-2147483647", false},
		"a disk with many digits":          {"diskSize", strings.Repeat("9", 100_000), false},
		"a further disk with an exponent":  {"disks", []any{map[string]any{"size": "1E-2147483647"}}, false},
		"a further disk without a problem": {"disks", []any{map[string]any{"size": "1Ti"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": map[string]any{"path": "empty.raw"}, test.field: test.value}}}
			machine.SetGroupVersionKind(infrav1.GroupVersion.WithKind("QEMUMachine"))
			machine.SetNamespace(namespace)
			machine.SetGenerateName("m-")
			err := cluster.Client.Create(t.Context(), machine)
			if accepted := err == nil; accepted != test.accepted || !accepted && !apierrors.IsInvalid(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
