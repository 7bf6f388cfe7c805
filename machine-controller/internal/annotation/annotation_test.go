// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSemantics(t *testing.T) {
	t.Parallel()
	const key = "example.com/key"
	tests := map[string]struct {
		annotations     map[string]string
		present, isTrue bool
	}{
		"it is absent":         {},
		"it has another key":   {annotations: map[string]string{"example.com/keys": "true"}},
		"it is empty":          {annotations: map[string]string{key: ""}, present: true},
		"it is true":           {annotations: map[string]string{key: "true"}, present: true, isTrue: true},
		"it is false":          {annotations: map[string]string{key: "false"}, present: true},
		"it is in other cases": {annotations: map[string]string{key: "True"}, present: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &metav1.ObjectMeta{Annotations: test.annotations}
			if got := Present(object, key); got != test.present {
				t.Errorf("present is %t, want %t", got, test.present)
			}
			if got := IsTrue(object, key); got != test.isTrue {
				t.Errorf("true is %t, want %t", got, test.isTrue)
			}
		})
	}
}
