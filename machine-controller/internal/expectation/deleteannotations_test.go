// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// liveMachines is an API server with the Machines of these UIDs; true is the annotation.
func liveMachines(t *testing.T, machines map[types.UID]bool, err error) client.Reader {
	t.Helper()
	return interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			all := (&client.ListOptions{}).ApplyOptions(options)
			metadata, only := list.(*metav1.PartialObjectMetadataList)
			if !only || all.Namespace != "ns" {
				t.Errorf("it lists %T in namespace %q", list, all.Namespace)
				return err
			}
			for uid, annotated := range machines {
				item := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid}}
				if annotated {
					item.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
				}
				metadata.Items = append(metadata.Items, item)
			}
			return err
		},
	})
}

func TestDeleteAnnotationsObserved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		live, cached map[types.UID]bool
		want         bool
	}{
		"is true without Machines":                             {want: true},
		"is true when no Machine is annotated":                 {map[types.UID]bool{"a": false}, map[types.UID]bool{"a": false}, true},
		"is true when the cache has every annotation":          {map[types.UID]bool{"a": true, "b": false}, map[types.UID]bool{"a": true, "b": false}, true},
		"is false when the cache lacks an annotation":          {map[types.UID]bool{"a": true, "b": true}, map[types.UID]bool{"a": true, "b": false}, false},
		"is true when only the cache has an annotation":        {map[types.UID]bool{"a": false}, map[types.UID]bool{"a": true}, true},
		"ignores an annotated Machine that is not in the list": {map[types.UID]bool{"a": true, "other": true}, map[types.UID]bool{"a": true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cached []*clusterv1.Machine
			for uid, annotated := range test.cached {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: uid}}
				if annotated {
					m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: "false"} // counts by being present
				}
				cached = append(cached, m)
			}
			got, err := DeleteAnnotationsObserved(t.Context(), liveMachines(t, test.live, nil), cached, client.InNamespace("ns"))
			if err != nil || got != test.want {
				t.Errorf("observed is %t, error %v; want %t", got, err, test.want)
			}
		})
	}
}

func TestDeleteAnnotationsAreNotObservedWhenTheListFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	observed, err := DeleteAnnotationsObserved(t.Context(), liveMachines(t, nil, boom), nil, client.InNamespace("ns"))
	if observed || !errors.Is(err, boom) {
		t.Errorf("observed is %t, error %v", observed, err)
	}
}
