// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestMachinePredicate: each accepted change is a read of an instance in the cloud.
func TestMachinePredicate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"the bootstrap data is named":  {func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = ptr.To("data") }, true},
		"the Cluster is another one":   {func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" }, true},
		"the failure domain is chosen": {func(m *clusterv1.Machine) { m.Spec.FailureDomain = "zone-b" }, true},
		"the reference is set":         {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "worker" }, true},
		"there is another Machine":     {func(m *clusterv1.Machine) { m.UID = "another" }, true},
		"the providerID is reported":   {func(m *clusterv1.Machine) { m.Spec.ProviderID = "sim:///a/b"; m.Generation++ }, false},
		"the Machine is being deleted": {func(m *clusterv1.Machine) {
			m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
			m.Generation++
		}, false},
		"the drain may take longer":        {func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](9); m.Generation++ }, false},
		"the status and labels say more":   {func(m *clusterv1.Machine) { m.Status.Phase = "Running"; m.Labels = map[string]string{"a": "b"} }, false},
		"the same Machine is listed again": {func(*clusterv1.Machine) {}, false},
	} {
		before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "one"}, Spec: clusterv1.MachineSpec{ClusterName: "home"}}
		after := before.DeepCopy()
		test.change(after)
		if got := machineInputsOf(before) != machineInputsOf(after); got != test.want {
			t.Errorf("%s: reconciled = %t, want %t", name, got, test.want)
		}
	}
}
