// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/backoff"
	"drover.io/runtime/fairshare"
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
		values          int  // of the selectors of older checks
		taken           bool // whether the youngest of these selects the Machines as well
		after           time.Duration
	}{
		"by no time for some hundred Machines":                {400, 0, 0, false, 0},
		"by the number of Machines":                           {1000, 0, 0, false, 300 * time.Millisecond},
		"by the number of older checks":                       {1000, 100, 0, false, 1300 * time.Millisecond},
		"by older checks if one of them selects the Machines": {1000, 100, 0, true, 1300 * time.Millisecond},
		"by the values with which older checks select others": {1000, 10, 598, false, 10400 * time.Millisecond},
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
						if test.values > 0 {
							older.Spec.Selector = manyValues(test.values)
						}
						if test.taken && i == test.older-1 {
							older.Spec.Selector = check.Spec.Selector
							older.Name = "z-youngest"
						}
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

// manyValues selects no Machine of a test, by an expression with so many values.
func manyValues(n int) metav1.LabelSelector {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint("b", i)
	}
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: values}}}
}

// TestHandlersCompileNoSelector has a check that selects no Machine: until it was reconciled its selector is not compiled,
// and each Machine of its Cluster triggers that.
func TestHandlersCompileNoSelector(t *testing.T) {
	t.Parallel()
	api, namespace := management.Client(t), management.Namespace(t)
	cluster, check := testenv.Cluster(namespace), newCheck(namespace, "check")
	check.Spec.Selector = manyValues(32)
	for _, object := range []client.Object{cluster, check} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	r := &Reconciler{Client: indextest.NewClient(t, api), Workloads: workload.New(workload.Options{}), Clock: clocktesting.NewFakePassiveClock(time.Now())}
	r.looks.Clock, r.writes = r.Clock, &expectation.Writes{Clock: r.Clock}
	m := testenv.Machine(namespace, "m")
	for _, reconciled := range []bool{false, true} {
		if reconciled {
			if err := r.observe(t.Context(), &state{check: check, cluster: cluster}); err != nil {
				t.Fatal(err)
			}
		}
		if triggers := len(r.checksOfMachine(t.Context(), m)) == 1; triggers == reconciled {
			t.Errorf("reconciled: %t, the Machine triggers a reconcile: %t", reconciled, triggers)
		}
	}
}

// TestANamespaceHoldsHalfOfTheWorkers has one with as many checks at work as it may have.
func TestANamespaceHoldsHalfOfTheWorkers(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Now())
	r := &Reconciler{Clock: clk, fairShare: fairshare.NewGate(2, clk)}
	leave, _ := r.fairShare.Enter("tenant", "busy")
	defer leave()
	clk.SetTime(clk.Now().Add(3 * time.Second))
	result, err := r.Reconcile(t.Context(), newCheck("tenant", "check"))
	if err != nil || result.RequeueAfter != 3*time.Second {
		t.Errorf("got %v, %v; want another attempt after 3s, which the other has taken so far", result, err)
	}
}

// TestChecksOfManyMachinesBackOff has one whose reconciles fail for ten minutes, as a check of few Machines would: the next
// attempts are those of the controller's queue.
func TestChecksOfManyMachinesBackOff(t *testing.T) {
	t.Parallel()
	api, namespace := management.Client(t), management.Namespace(t)
	cluster, check := testenv.Cluster(namespace), newCheck(namespace, "check")
	for _, object := range []client.Object{cluster, check} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	cached := interceptor.NewClient(api, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		switch list := list.(type) {
		case *clusterv1.MachineList:
			list.Items = make([]clusterv1.Machine, 1000)
		case *clusterv1.MachineSetList:
			return errors.New("boom")
		}
		return nil
	}})
	start := time.Now()
	clk := clocktesting.NewFakePassiveClock(start)
	r := &Reconciler{
		Client: cached, Live: api, Workloads: workload.New(workload.Options{}), Events: events.NewFakeRecorder(10), Clock: clk,
		writes: &expectation.Writes{Clock: clk}, backoff: backoff.NewLimiter(),
	}
	r.looks.Clock = clk
	r.setPhases()
	request, failures := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}, 0
	for clk.Since(start) < 10*time.Minute && failures < 100 {
		result, err := r.Reconcile(t.Context(), check)
		after := result.RequeueAfter
		if err != nil {
			failures++
			after = r.backoff.When(request)
		} else {
			r.backoff.Forget(request)
		}
		clk.SetTime(clk.Now().Add(after))
	}
	if failures > 20 {
		t.Errorf("it failed %d times or more in %s", failures, clk.Since(start))
	}
}
