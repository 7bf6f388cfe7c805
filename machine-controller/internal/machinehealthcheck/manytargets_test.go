// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

// TestCostOfATargetIsThatOfOne evaluates the Machines of one MachineDeployment, as many as it may have: the places of their
// budget are counted once. It takes some 100 ms; counted for each Machine, they take minutes.
func TestCostOfATargetIsThatOfOne(t *testing.T) {
	t.Parallel()
	s := &state{
		check: &clusterv1.MachineHealthCheck{}, cluster: testenv.Cluster("ns"), groups: map[string]*group{"MachineDeployment md": {limit: 1}}, groupOf: map[types.UID]string{},
	}
	for i := range 10_000 {
		m := testenv.Machine("ns", fmt.Sprint("m", i))
		m.UID = types.UID(m.Name)
		s.targets, s.groupOf[m.UID] = append(s.targets, m), "MachineDeployment md"
	}
	s.groups["MachineDeployment md"].machines = s.targets
	began := time.Now()
	if _, err := (evaluation{clocktesting.NewFakePassiveClock(began)}).run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestChecksOfManyMachinesAreSpacedOut reconciles a check twice at the same time: what one costs grows with the Machines of
// the Cluster, and with the older checks that may select its targets.
func TestChecksOfManyMachinesAreSpacedOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		machines, older int
		after           time.Duration
	}{
		"by no time for some hundred Machines": {400, 0, 0},
		"by the number of Machines":            {1000, 0, 300 * time.Millisecond},
		"by the number of older checks":        {1000, 100, 1300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, namespace := management.Client(t), management.Namespace(t)
			cluster, check := testenv.Cluster(namespace), newCheck(namespace, "check")
			for _, object := range []client.Object{cluster, check} {
				if err := api.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			lists := 0
			cached := interceptor.NewClient(api, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				switch list := list.(type) {
				case *clusterv1.MachineList:
					lists++
					for i := range test.machines {
						m := testenv.Machine(namespace, fmt.Sprint("m", i))
						m.UID, m.Labels = types.UID(m.Name), check.Spec.Selector.MatchLabels
						list.Items = append(list.Items, *m)
					}
				case *clusterv1.MachineHealthCheckList:
					for i := range test.older {
						older := newCheck(namespace, fmt.Sprint("older", i))
						older.UID, older.Spec.Selector.MatchLabels = types.UID(older.Name), map[string]string{"pool": "b"}
						list.Items = append(list.Items, *older)
					}
				}
				return nil
			}})
			clk := clocktesting.NewFakePassiveClock(time.Now())
			r := &Reconciler{
				Client: cached, Live: api, Workloads: workload.New(workload.Options{}), Events: events.NewFakeRecorder(10), Clock: clk,
				Guard:  &safety.Guard{Management: func() safety.Reachability { return safety.Reachability{} }, Reader: cached},
				writes: &expectation.Writes{Clock: clk},
			}
			r.looks.Clock = clk
			r.setPhases()
			var after time.Duration
			for range 2 {
				result, err := r.Reconcile(t.Context(), check)
				if err != nil {
					t.Fatal(err)
				}
				after = result.RequeueAfter
			}
			if test.after == 0 {
				test.after = recheckPeriod // it was reconciled again, and waits for the connection
			}
			if after != test.after {
				t.Errorf("reconciles again after %s, want %s", after, test.after)
			}
			if reconciled := map[bool]int{true: 2, false: 1}[test.after == recheckPeriod]; lists != reconciled {
				t.Errorf("was reconciled %d times, want %d", lists, reconciled)
			}
		})
	}
}
