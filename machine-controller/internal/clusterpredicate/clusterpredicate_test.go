// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package clusterpredicate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"drover.io/machine-controller/internal/annotation"
)

func TestStateChanged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"passes being paused":                         {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true},
		"passes being deleted":                        {func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }, true},
		"passes being provisioned":                    {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }, true},
		"passes being initialized":                    {func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }, true},
		"passes that Machines may assign providerIDs": {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{annotation.AssignProviderIDs: "true"} }, true},
		"stops an annotation with the value no":       {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{annotation.AssignProviderIDs: "no"} }, false},
		"stops false where there was nothing":         {func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) }, false},
		"stops conditions and other status":           {func(c *clusterv1.Cluster) { c.Status.Phase, c.ResourceVersion = "x", "9" }, false},
		"stops what has not changed":                  {func(*clusterv1.Cluster) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.Cluster{}, &clusterv1.Cluster{}
			test.change(after)
			for _, e := range []event.UpdateEvent{{ObjectOld: before, ObjectNew: after}, {ObjectOld: after, ObjectNew: before}} {
				if got := StateChanged().Update(e); got != test.want {
					t.Errorf("passes is %t, want %t", got, test.want)
				}
			}
		})
	}
	if !StateChanged().Create(event.CreateEvent{Object: &clusterv1.Cluster{}}) || StateChanged().Delete(event.DeleteEvent{Object: &clusterv1.Cluster{}}) {
		t.Error("a Cluster that appears must pass, one that is gone must not")
	}
}
