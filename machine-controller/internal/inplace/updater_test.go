// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func machineOfSet(name string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// TestLargeSetIsUpdatedInBatches changes a template in place, of which every other Machine is refused.
func TestLargeSetIsUpdatedInBatches(t *testing.T) {
	t.Parallel()
	const accepted = maxPerReconcile + 2*maxParallel
	set := setOf(map[string]string{"pool": "a"}, nil)
	set.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	var machines []*clusterv1.Machine
	for i := range accepted {
		machines = append(machines, machineOfSet(fmt.Sprintf("refused-%d", i)), machineOfSet(fmt.Sprintf("m-%d", i)))
	}
	var written atomic.Int32
	c := interceptor.NewClient(server.Client(t), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			if strings.HasPrefix(o.GetName(), "refused") {
				return errors.New("refused")
			}
			written.Add(1)
			return nil
		},
	})
	// The Machines carry all but the new field.
	for _, m := range machines {
		PropagateToMachine(m, setOf(map[string]string{"pool": "a"}, nil))
		m.Labels = MachineLabels(set)
	}
	u := &Updater{Client: c}
	result, err := u.Update(t.Context(), set, machines)
	if err == nil || result.RequeueAfter == 0 {
		t.Errorf("got %v, %v, want the refusals and the wish to go on", result, err)
	}
	if n := written.Load(); n < maxPerReconcile || n >= maxPerReconcile+maxParallel {
		t.Errorf("%d Machines were written in one pass", n)
	}
	var left []*clusterv1.Machine
	for i, m := range machines {
		if i >= len(machines)-20 && strings.HasPrefix(m.Name, "m-") {
			left = append(left, m)
		}
	}
	machines = left
	if result, err := u.Update(t.Context(), set, machines); err != nil || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v in the last pass", result, err)
	}
}
