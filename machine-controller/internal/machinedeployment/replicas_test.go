// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/rollout"
	"drover.io/runtime/results"
)

// withoutReplicas is a deployment that leaves spec.replicas out, with one set that was written for five.
func withoutReplicas() (*clusterv1.MachineDeployment, []*clusterv1.MachineSet) {
	md, set := selecting(), setWith("6", 5, 5)
	md.Spec.Replicas = nil
	for key, value := range (rollout.SizeAnnotations{Desired: 5, Max: 6}).Annotations() {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value)
	}
	return md, []*clusterv1.MachineSet{set}
}

func TestRemovedReplicas(t *testing.T) {
	t.Parallel()
	sizes := func(least, most string) map[string]string {
		return map[string]string{clusterv1.AutoscalerMinSizeAnnotation: least, clusterv1.AutoscalerMaxSizeAnnotation: most}
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		isNew       bool
		want        int32
	}{
		"it keeps what it had":                   {want: 5},
		"it keeps what the autoscaler may have":  {annotations: sizes("1", "9"), want: 5},
		"it is lowered to the maximum":           {annotations: sizes("1", "4"), want: 4},
		"it starts with the minimum when it new": {annotations: sizes("2", "4"), isNew: true, want: 2},
		"it starts with one":                     {isNew: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md, sets := withoutReplicas()
			for key, value := range test.annotations {
				metav1.SetMetaDataAnnotation(&md.ObjectMeta, key, value)
			}
			if test.isNew {
				sets = nil
			}
			r := reconcilerWith(t, interceptor.Funcs{}, md)
			if err := r.defaultReplicas(t.Context(), &state{deployment: md, sets: sets}); err != nil {
				t.Fatal(err)
			}
			r.get(t, md)
			if md.Spec.Replicas == nil || *md.Spec.Replicas != test.want {
				t.Errorf("replicas are %v, want %d", md.Spec.Replicas, test.want)
			}
		})
	}
}

// TestDefaultReplicasUsesOptimisticLock sets spec.replicas after the deployment was read.
func TestDefaultReplicasUsesOptimisticLock(t *testing.T) {
	t.Parallel()
	md, sets := withoutReplicas()
	r := reconcilerWith(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		other := &clusterv1.MachineDeployment{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), other); err != nil {
			return err
		}
		other.Spec.Replicas = new(int32(7))
		if err := c.Update(ctx, other); err != nil {
			return err
		}
		return c.Patch(ctx, object, patch, options...)
	}}, md)
	if err := r.defaultReplicas(t.Context(), &state{deployment: md, sets: sets}); err == nil || results.IgnoreNotFoundOrConflict(err) != nil {
		t.Errorf("error %v, want a conflict", err)
	}
	r.get(t, md)
	if *md.Spec.Replicas != 7 {
		t.Errorf("replicas are %d, want 7", *md.Spec.Replicas)
	}
}
