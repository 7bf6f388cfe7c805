// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
			stored := &unstructured.Unstructured{}
			stored.SetAPIVersion("v1")
			stored.SetKind("ConfigMap")
			stored.SetNamespace(cluster.Namespace)
			stored.SetName("i")
			stored.SetOwnerReferences(test.owners)
			if err := api.Create(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			before := stored.DeepCopy()
			err := adopt(t.Context(), api, cluster, stored)
			if isRefused(err) != (test.refused != "") || (test.refused == "" && err != nil) {
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
