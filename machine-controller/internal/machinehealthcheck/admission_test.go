// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestAdmission shows what the API server itself refuses, naming the field.
func TestAdmission(t *testing.T) {
	t.Parallel()
	c := management.Client(t)
	tests := map[string]struct {
		change func(*clusterv1.MachineHealthCheckSpec)
		field  string
	}{
		"takes a good one": {change: func(*clusterv1.MachineHealthCheckSpec) {}},
		"takes percentages and ranges": {change: func(s *clusterv1.MachineHealthCheckSpec) {
			s.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo, s.Remediation.TriggerIf.UnhealthyInRange = new(intstr.FromString("40%")), "[1-3]"
		}},
		"takes a number": {change: func(s *clusterv1.MachineHealthCheckSpec) {
			s.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromInt32(0))
		}},
		"takes no startup timeout": {change: func(s *clusterv1.MachineHealthCheckSpec) { s.Checks.NodeStartupTimeoutSeconds = new(int32(0)) }},
		"refuses a short startup timeout": {
			change: func(s *clusterv1.MachineHealthCheckSpec) { s.Checks.NodeStartupTimeoutSeconds = new(int32(29)) },
			field:  "spec.checks.nodeStartupTimeoutSeconds",
		},
		"refuses an empty selector": {
			change: func(s *clusterv1.MachineHealthCheckSpec) {
				s.Selector = metav1.LabelSelector{MatchLabels: map[string]string{}}
			},
			field: "spec.selector",
		},
		"takes the name of its Cluster": {change: func(s *clusterv1.MachineHealthCheckSpec) {
			s.Selector = metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: s.ClusterName}}
		}},
		"refuses Machines of another Cluster": {
			change: func(s *clusterv1.MachineHealthCheckSpec) {
				s.Selector = metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: "another"}}
			},
			field: "spec.selector",
		},
		"refuses a word for a number": {
			change: func(s *clusterv1.MachineHealthCheckSpec) {
				s.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString("few"))
			},
			field: "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo",
		},
		"refuses a negative number": {
			change: func(s *clusterv1.MachineHealthCheckSpec) {
				s.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromInt32(-1))
			},
			field: "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo",
		},
		"refuses a range that is upside down": {
			change: func(s *clusterv1.MachineHealthCheckSpec) { s.Remediation.TriggerIf.UnhealthyInRange = "[5-3]" },
			field:  "spec.remediation.triggerIf.unhealthyInRange",
		},
		"refuses conditions that it writes itself": {
			change: func(s *clusterv1.MachineHealthCheckSpec) {
				s.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{{Type: "Ready", Status: "False", TimeoutSeconds: new(int32(1))}}
			},
			field: "spec.checks.unhealthyMachineConditions[0].type",
		},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "admission-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := newCheck(namespace.Name, "")
			check.GenerateName = "check-"
			test.change(&check.Spec)
			err := c.Create(t.Context(), check)
			if (err != nil) != (test.field != "") || (err != nil && !strings.Contains(err.Error(), test.field+":")) {
				t.Errorf("created with %v, want an error about %q", err, test.field)
			}
		})
	}
}

func TestAdmissionDefaultsTheStartupTimeout(t *testing.T) {
	t.Parallel()
	c := management.Client(t)
	for name, checks := range map[string]clusterv1.MachineHealthCheckChecks{
		"without checks": {},
		"with checks":    newCheck("", "").Spec.Checks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := newCheck("default", "")
			check.GenerateName, check.Spec.Checks = "defaults-", checks
			if err := c.Create(t.Context(), check); err != nil {
				t.Fatal(err)
			}
			if got := check.Spec.Checks.NodeStartupTimeoutSeconds; got == nil || *got != 600 {
				t.Errorf("startup timeout: %v", got)
			}
			check.Spec.ClusterName = "other"
			if err := c.Update(t.Context(), check); err == nil || !strings.Contains(err.Error(), "spec.clusterName:") {
				t.Errorf("the Cluster was changed with %v", err)
			}
		})
	}
}
