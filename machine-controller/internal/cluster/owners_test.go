// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/ownership"
)

// TestAdoptLeavesWhatBelongsToAnother stores objects with owners, and has a Cluster adopt them.
func TestAdoptLeavesWhatBelongsToAnother(t *testing.T) {
	t.Parallel()
	const mine, other types.UID = "mine", "other"
	owner := func(apiVersion, kind, name string, uid types.UID, controls *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: controls}
	}
	core := clusterv1.GroupVersion.String()
	for name, test := range map[string]struct {
		owners  []metav1.OwnerReference
		refused string
	}{
		"without owners":                       {nil, ""},
		"of the Cluster":                       {[]metav1.OwnerReference{owner(core, "Cluster", "c", mine, nil)}, ""},
		"of the Cluster as its controller":     {[]metav1.OwnerReference{owner(core, "Cluster", "c", mine, new(true))}, ""},
		"of something that does not control":   {[]metav1.OwnerReference{owner("v1", "Secret", "s", other, nil)}, ""},
		"of a Cluster of another group":        {[]metav1.OwnerReference{owner("test.io/v1", "Cluster", "c", other, new(false))}, ""},
		"of another Cluster":                   {[]metav1.OwnerReference{owner(core, "Cluster", "d", other, nil)}, `Cluster "d"`},
		"of another Cluster, older version":    {[]metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta1", "Cluster", "d", other, nil)}, `Cluster "d"`},
		"of one that had the name before":      {[]metav1.OwnerReference{owner(core, "Cluster", "c", other, nil)}, `Cluster "c"`},
		"of another controller":                {[]metav1.OwnerReference{owner("test.io/v1", "Thing", "x", other, new(true))}, `Thing "x"`},
		"of the Cluster and another Cluster":   {[]metav1.OwnerReference{owner(core, "Cluster", "c", mine, nil), owner(core, "Cluster", "d", other, nil)}, `Cluster "d"`},
		"of the Cluster and another's control": {[]metav1.OwnerReference{owner(core, "Cluster", "c", mine, nil), owner("test.io/v1", "Thing", "x", other, new(true))}, `Thing "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := server.Client(t)
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "c", UID: mine}}
			stored := configMap(cluster.Namespace)
			stored.SetOwnerReferences(test.owners)
			if err := api.Create(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			before := stored.DeepCopy()
			err := adopter{api, unchanged{}}.adopt(t.Context(), cluster, stored, "spec.x")
			if ownership.IsRefused(err) != (test.refused != "") || (test.refused == "" && err != nil) {
				t.Fatalf("error %v", err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			if test.refused == "" {
				if !ownedBy(stored, mine) || stored.GetLabels()[clusterv1.ClusterNameLabel] != "c" {
					t.Errorf("not adopted: %v", stored.Object["metadata"])
				}
				return
			}
			if diff := cmp.Diff(before.Object, stored.Object); diff != "" {
				t.Errorf("changed though it belongs to another: %s", diff)
			}
			condition := infrastructureReady(&state{cluster: clusterWith(infraRef), infraErr: err})
			if condition.Status == metav1.ConditionTrue || !strings.Contains(condition.Message, test.refused) {
				t.Errorf("condition %+v, want one that names %s", condition, test.refused)
			}
		})
	}
}

// TestAdoptLabelsForTheSameManager has a Cluster with a watch-filter label adopt its object twice, from the same copy.
func TestAdoptLabelsForTheSameManager(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: server.Namespace(t), Name: "c", UID: "mine", Labels: map[string]string{clusterv1.WatchLabel: "own"},
	}}
	api := server.Client(t)
	object := configMap(cluster.Namespace)
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := (adopter{api, unchanged{}}).adopt(t.Context(), cluster, object, "spec.x"); err != nil {
		t.Fatal(err)
	}
	if !ownedBy(object, "mine") {
		t.Error("the copy has no owner after the adoption")
	}
	object.SetLabels(nil) // adopted again, from what the first adoption has left
	if err := (adopter{api, unchanged{}}).adopt(t.Context(), cluster, object, "spec.x"); err != nil {
		t.Errorf("the copy has an old version: %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if object.GetLabels()[clusterv1.WatchLabel] != "own" || len(object.GetOwnerReferences()) != 1 {
		t.Errorf("metadata %v", object.Object["metadata"])
	}
}

func TestAdoptLeavesAnObjectThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	api := interceptor.NewClient(nil, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("an object that is being deleted was patched")
		},
	})
	object := configMap("ns")
	object.SetDeletionTimestamp(new(metav1.Now()))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "mine"}}
	if err := (adopter{api, unchanged{}}).adopt(t.Context(), cluster, object, "spec.x"); err != nil || ownedBy(object, "mine") {
		t.Errorf("owners %v, error %v", object.GetOwnerReferences(), err)
	}
}

// configMap is used as an object of a provider.
func configMap(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	object.SetNamespace(namespace)
	object.SetName("i")
	return object
}

// clusterWith is a Cluster that refers to infrastructure.
func clusterWith(ref clusterv1.ContractVersionedObjectReference) *clusterv1.Cluster {
	return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{InfrastructureRef: ref}}
}

func ownedBy(object client.Object, uid types.UID) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == uid {
			return true
		}
	}
	return false
}

// TestInfrastructureThatIsBeingAdoptedByAnotherIsNotDeleted deletes a Cluster whose infrastructure object was adopted by
// another Cluster a moment ago: the cache shows it without an owner, and its own adoption conflicts.
func TestInfrastructureThatIsBeingAdoptedByAnotherIsNotDeleted(t *testing.T) {
	t.Parallel()
	p := provider{object: fields("provisioned", true), patchErr: apierrors.NewConflict(schema.GroupResource{Resource: "i"}, "i", errors.New("modified"))}
	s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "mine", Finalizers: []string{clusterv1.ClusterFinalizer}, DeletionTimestamp: new(metav1.Now()),
	}}}
	s.cluster.Spec.InfrastructureRef = infraRef
	if _, err := (infrastructure{adopter{p.client(), unchanged{}}, p.reader()}).run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	deletes := 0
	c := interceptor.NewClient(nil, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deletes++
			return nil
		},
	})
	if _, err := (deletion{client: c, live: unchanged{}}).run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if deletes > 0 || len(s.cluster.Finalizers) == 0 {
		t.Errorf("deleted %d times, finalizers %v", deletes, s.cluster.Finalizers)
	}
}
