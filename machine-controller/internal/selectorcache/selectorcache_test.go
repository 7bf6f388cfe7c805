// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package selectorcache

import (
	"errors"
	"fmt"
	"slices"
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
		selector, failed := cache.Get(&metav1.ObjectMeta{UID: uid, Generation: generation}, func() (labels.Selector, error) {
			r.compiled = true
			return labels.Everything(), err
		})
		if r.found = selector != nil; r.found == (failed != nil) {
			t.Errorf("the selector is %v, the error %v", selector, failed)
		}
		return r
	}
	invalid := errors.New("invalid")
	got := []result{
		get("a", 1, nil), get("a", 1, nil), get("a", 2, invalid), get("a", 2, nil), get("b", 1, nil), get("", 1, nil), get("", 1, nil),
	}
	want := []result{
		{true, true}, {true, false}, {false, true}, {false, false}, {true, true}, {true, true}, {true, true},
	}
	if len(cache.compiled) != 2 {
		t.Errorf("%d selectors of 2 objects are kept", len(cache.compiled))
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestSelectorsTakeLittleMemory has an author who gives a selector many values, and changes them again and again, or deletes
// the object and creates another.
func TestSelectorsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const values = maxTerms / 3 // of which two selectors are kept
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"b"}, values)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var cache Cache
	compile := func() (labels.Selector, error) { return selector, nil }
	for i := range 5 {
		object := &metav1.ObjectMeta{UID: "changed", Generation: int64(i)}
		if _, err := cache.Get(object, compile); err != nil {
			t.Error(err)
		}
		if _, known := cache.Known(object); !known || cache.terms != values+2 {
			t.Errorf("generation %d is known: %t, %d terms are kept", i, known, cache.terms)
		}
	}
	for i := range 5 {
		object := &metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}
		if _, err := cache.Get(object, compile); err != nil {
			t.Error(err)
		}
		if _, known := cache.Known(object); !known || cache.terms > maxTerms || cache.terms != len(cache.compiled)*(values+2) {
			t.Errorf("object %d is known: %t, %d terms of %d selectors are kept", i, known, cache.terms, len(cache.compiled))
		}
	}
}
