// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/testenv"
)

// TestWhatNoMachineSetCanHaveIsReported scales a deployment with a label in its template that was stored before there was a
// rule against it, or with annotations that are too long together with those of its MachineSet.
func TestWhatNoMachineSetCanHaveIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		names  string
	}{
		"a label":          {func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["team"] = "a b" }, "a b"},
		"long annotations": {func(md *clusterv1.MachineDeployment) { md.Annotations["own"] = strings.Repeat("x", 200_000) }, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			set := setOf(md, "set", md.Spec.Template.Spec.Version)
			set.Spec.Replicas = new(int32(3))
			set.Annotations["set"] = strings.Repeat("x", 100_000)
			for key, value := range (rollout.SizeAnnotations{Desired: 3, Max: 4}).Annotations() {
				set.Annotations[key] = value
			}
			r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
			r.setUp()
			r.get(t, md)
			md.Spec.Replicas = new(int32(5))
			test.change(md)
			r.get(t, set)
			s := &state{deployment: md, cluster: testenv.Cluster(md.Namespace), sets: []*clusterv1.MachineSet{set}}
			if _, err := r.rollOut(t.Context(), s); err != nil {
				t.Error(err)
			}
			r.get(t, set)
			if *set.Spec.Replicas != 5 {
				t.Errorf("the MachineSet has %d replicas, want 5", *set.Spec.Replicas)
			}
			setStatus(s, r.Clock.Now())
			if message := conditions.GetMessage(md, clusterv1.MachineDeploymentAvailableCondition); !strings.Contains(message, test.names) {
				t.Errorf("the message of Available is %q", message)
			}
		})
	}
}
