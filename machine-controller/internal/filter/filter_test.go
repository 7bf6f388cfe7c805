// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestWatchLabel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value, label string
		want         bool
	}{
		"passes all without a filter": {"", "x", true},
		"passes its own":              {"x", "x", true},
		"stops another's":             {"x", "y", false},
		"stops what has no label":     {"x", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			if test.label != "" {
				m.Labels = map[string]string{clusterv1.WatchLabel: test.label}
			}
			p := WatchLabel(test.value)
			if p.Create(event.CreateEvent{Object: m}) != test.want || p.Delete(event.DeleteEvent{Object: m}) != test.want ||
				p.Update(event.UpdateEvent{ObjectOld: &clusterv1.Machine{}, ObjectNew: m}) != test.want {
				t.Errorf("does not answer %t to all", test.want)
			}
		})
	}
}

func TestPaused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cluster     *bool
		annotations map[string]string
		want        bool
	}{
		"is not by itself":                         {nil, nil, false},
		"is by its Cluster":                        {new(true), nil, true},
		"is not by a Cluster that says false":      {new(false), nil, false},
		"is by its annotation, whatever its value": {nil, map[string]string{clusterv1.PausedAnnotation: "false"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: test.cluster}}
			if got := Paused(c, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}); got != test.want {
				t.Errorf("paused is %t, want %t", got, test.want)
			}
		})
	}
}

func TestClusterTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"passes being paused":                 {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true},
		"passes being deleted":                {func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }, true},
		"passes being provisioned":            {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }, true},
		"passes being initialized":            {func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }, true},
		"passes letting Machines assign":      {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{AssignProviderIDsAnnotation: "true"} }, true},
		"stops an annotation that says no":    {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{AssignProviderIDsAnnotation: "no"} }, false},
		"stops false where there was nothing": {func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) }, false},
		"stops conditions and other status":   {func(c *clusterv1.Cluster) { c.Status.Phase, c.ResourceVersion = "x", "9" }, false},
		"stops what says nothing new at all":  {func(*clusterv1.Cluster) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.Cluster{}, &clusterv1.Cluster{}
			test.change(after)
			for _, e := range []event.UpdateEvent{{ObjectOld: before, ObjectNew: after}, {ObjectOld: after, ObjectNew: before}} {
				if got := ClusterTurns().Update(e); got != test.want {
					t.Errorf("passes is %t, want %t", got, test.want)
				}
			}
		})
	}
	if !ClusterTurns().Create(event.CreateEvent{Object: &clusterv1.Cluster{}}) || ClusterTurns().Delete(event.DeleteEvent{Object: &clusterv1.Cluster{}}) {
		t.Error("a Cluster that appears must pass, one that is gone must not")
	}
}
