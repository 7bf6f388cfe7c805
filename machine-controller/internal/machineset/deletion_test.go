// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/machineset/deletion"
	"drover.io/machine-controller/internal/testenv"
)

// One Machine whose deletion is refused keeps none of the others, of which there are more than go at once.
func TestDeleteMachinesContinuesAfterAnError(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set"}}
	var machines []*clusterv1.Machine
	var objects []client.Object
	for i := range 3 * deletion.MaxParallel {
		m := testenv.Machine("ns", fmt.Sprint("m", i))
		machines, objects = append(machines, m), append(objects, m)
	}
	r, inner := reconcilerWith(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if object.GetName() == "m3" {
				return refused
			}
			return c.Delete(ctx, object, options...)
		},
	}, objects...)
	if err := r.deleter.DeleteAll(t.Context(), set, machines, deletion.ReasonScaleDown); !errors.Is(err, refused) {
		t.Errorf("error %v, want the refusal", err)
	}
	left := &clusterv1.MachineList{}
	if err := inner.List(t.Context(), left, client.InNamespace(machines[0].Namespace)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range left.Items {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"m3"}, names); diff != "" {
		t.Error(diff)
	}
}
