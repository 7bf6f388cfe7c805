// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestSelects(t *testing.T) {
	t.Parallel()
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{"pool": "a"}},
		Spec:       clusterv1.MachineSpec{ClusterName: "c"},
	}
	for name, test := range map[string]struct {
		change  func(*clusterv1.MachineHealthCheck)
		selects bool
		fails   bool
	}{
		"selects by label":                     {func(*clusterv1.MachineHealthCheck) {}, true, false},
		"does not select another label":        {func(c *clusterv1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = "b" }, false, false},
		"does not select by an empty selector": {func(c *clusterv1.MachineHealthCheck) { c.Spec.Selector = metav1.LabelSelector{} }, false, true},
		"does not select in another namespace": {func(c *clusterv1.MachineHealthCheck) { c.Namespace = "other" }, false, false},
		"does not select of another Cluster":   {func(c *clusterv1.MachineHealthCheck) { c.Spec.ClusterName = "other" }, false, false},
		"does not select by an invalid operator": {func(c *clusterv1.MachineHealthCheck) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Unknown"}}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "check"}}
			check.Spec.ClusterName = "c"
			check.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
			test.change(check)
			if got := new(Selectors).Selects(check, machine); got != test.selects {
				t.Errorf("selects is %t", got)
			}
			if _, err := Selector(check); (err != nil) != test.fails || err != nil && !strings.Contains(err.Error(), "spec.selector") {
				t.Errorf("error %v", err)
			}
		})
	}
}
