// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package predicates_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"drover.io/runtime/predicates"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	changed := predicates.Changed(func(object client.Object) string { return object.GetLabels()["a"] })
	labelled := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	for name, test := range map[string]struct {
		before, after map[string]string
		want          bool
	}{
		"passes a change":          {map[string]string{"a": "1"}, map[string]string{"a": "2"}, true},
		"drops another change":     {map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "1", "b": "2"}, false},
		"drops the same once more": {map[string]string{"a": "1"}, map[string]string{"a": "1"}, false},
	} {
		if got := changed.Update(event.UpdateEvent{ObjectOld: labelled(test.before), ObjectNew: labelled(test.after)}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if !changed.Create(event.CreateEvent{Object: labelled(nil)}) || !changed.Delete(event.DeleteEvent{Object: labelled(nil)}) {
		t.Error("a creation or a deletion is dropped")
	}
}
