// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package predicates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestPaused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cluster     *bool
		annotations map[string]string
		want        bool
		why         string
	}{
		"is not by itself":                         {nil, nil, false, ""},
		"is by its Cluster":                        {new(true), nil, true, "Cluster spec.paused is set to true"},
		"is not by a Cluster that says false":      {new(false), nil, false, ""},
		"is by its annotation, whatever its value": {nil, map[string]string{clusterv1.PausedAnnotation: "false"}, true, `Machine has the cluster.x-k8s.io/paused annotation, whose value "false" does not matter: remove it`},
		"is by both":                               {new(true), map[string]string{clusterv1.PausedAnnotation: ""}, true, "Cluster spec.paused is set to true, Machine has the cluster.x-k8s.io/paused annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: test.cluster}}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if got := Paused(c, m); got != test.want {
				t.Errorf("paused is %t, want %t", got, test.want)
			}
			if got := PausedCondition(c, m, "Machine"); (got.Status == metav1.ConditionTrue) != test.want || got.Message != test.why {
				t.Errorf("the condition is %v, want the message %q", got, test.why)
			}
		})
	}
}
