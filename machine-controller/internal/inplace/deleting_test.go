// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestHookThatWasRemovedFromADeletingMachineStaysRemoved has a template with a deletion hook, whose owner has removed it
// from a Machine that is being deleted, and another drain timeout than the Machine.
func TestHookThatWasRemovedFromADeletingMachineStaysRemoved(t *testing.T) {
	t.Parallel()
	const hook = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/backup"
	set := setOf(map[string]string{"pool": "a"}, map[string]string{hook: "backup-operator"})
	m := machineOfSet("m")
	PropagateToMachine(m, set)
	m.DeletionTimestamp = new(metav1.Now())
	delete(m.Annotations, hook)
	set.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
	var patches []string
	c := interceptor.NewClient(server.Client(t), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
			data, err := patch.Data(o)
			patches = append(patches, string(data))
			return err
		},
	})
	if _, err := (&Updater{Client: c}).Update(t.Context(), set, []*clusterv1.Machine{m}); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"metadata":{"resourceVersion":""},"spec":{"deletion":{"nodeDrainTimeoutSeconds":60}}}`}
	if diff := cmp.Diff(want, patches); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
