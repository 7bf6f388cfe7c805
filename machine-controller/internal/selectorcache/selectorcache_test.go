// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package selectorcache

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestSelectorIsCompiledOncePerGeneration(t *testing.T) {
	t.Parallel()
	var cache Cache
	type result struct{ found, compiled bool }
	get := func(uid types.UID, generation int64, err error) result {
		var r result
		r.found = cache.Get(&metav1.ObjectMeta{UID: uid, Generation: generation}, func() (labels.Selector, error) {
			r.compiled = true
			return labels.Everything(), err
		}) != nil
		return r
	}
	invalid := errors.New("invalid")
	got := []result{
		get("a", 1, nil), get("a", 1, nil), get("a", 2, invalid), get("a", 2, nil), get("b", 1, nil), get("", 1, nil), get("", 1, nil),
	}
	want := []result{
		{true, true}, {true, false}, {false, true}, {false, false}, {true, true}, {true, true}, {true, true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
