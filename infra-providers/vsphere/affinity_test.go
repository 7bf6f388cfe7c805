// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// TestAntiAffinityRule follows a rule from its creation with the second machine to its deletion with the last but
// one.
func TestAntiAffinityRule(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	apart := func(spec *infrav1.VSphereMachineSpec) { spec.AntiAffinityGroup = "web" }
	const rule = "drover-team-home-web-0a0b0c0d"
	grow := []struct {
		name string
		want []string
	}{{"1", nil}, {"2", []string{"worker-1", "worker-2"}}, {"3", []string{"worker-1", "worker-2", "worker-3"}}}
	for _, step := range grow {
		if _, err := d.Create(t.Context(), req(w, identity(step.name), apart)); err != nil {
			t.Fatal(err)
		}
		await(t, d, identity(step.name), driver.Running)
		w.wantRule(rule, step.want)
	}
	for _, step := range []struct {
		name string
		want []string
	}{{"1", []string{"worker-2", "worker-3"}}, {"3", nil}, {"2", nil}} {
		if err := d.Delete(t.Context(), identity(step.name)); err != nil {
			t.Fatal(err)
		}
		await(t, d, identity(step.name), driver.Terminated)
		w.wantRule(rule, step.want)
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

// TestRulesOfClustersAreSeparate: names of namespaces and Clusters have hyphens, and another management cluster has the
// same ones. No rule is shared with a Cluster that another tenant chose the name of.
func TestRulesOfClustersAreSeparate(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	for i, owner := range []driver.Owner{
		{UID: "11111111-0000-4000-9000-000000000000", Namespace: "team", Name: "a-home"},
		{UID: "22222222-0000-4000-9000-000000000000", Namespace: "team-a", Name: "home"},
		{UID: "33333333-0000-4000-9000-000000000000", Namespace: "team", Name: "a-home"},
	} {
		id := identity(strconv.Itoa(i))
		id.Owner = owner
		if _, err := d.Create(t.Context(), req(w, id, func(spec *infrav1.VSphereMachineSpec) { spec.AntiAffinityGroup = "web" })); err != nil {
			t.Fatal(err)
		}
		await(t, d, id, driver.Running)
	}
	if left := w.cluster("DC0_C0").Rule; len(left) > 0 {
		t.Errorf("single machines of three Clusters share a rule: %+v", left[0].GetClusterRuleInfo().Name)
	}
}

// TestMachinesJoinARuleConcurrently: rules are read, changed and written back, so races would lose members.
func TestMachinesJoinARuleConcurrently(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	var workers sync.WaitGroup
	var want []string
	for _, n := range []string{"1", "2", "3", "4", "5", "6"} {
		want = append(want, "worker-"+n)
		workers.Go(func() {
			request := req(w, identity(n), func(spec *infrav1.VSphereMachineSpec) { spec.AntiAffinityGroup = "web" })
			if _, err := d.Create(t.Context(), request); err != nil {
				t.Error(err)
				return
			}
			until(t, "running worker-"+n, func() bool {
				found, err := d.Provision(t.Context(), identity(n))
				return err == nil && found.State == driver.Running
			})
		})
	}
	workers.Wait()
	w.wantRule("drover-team-home-web-0a0b0c0d", want)
}

func TestVMGroup(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	cluster, err := w.finder.ClusterComputeResource(t.Context(), "DC0_C0")
	if err != nil {
		t.Fatal(err)
	}
	other := w.find("DC0_C0_RP0_VM1").Reference()
	w.do(cluster.Reconfigure(t.Context(), &types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info:            &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: "licensed"}, Vm: []types.ManagedObjectReference{other}},
	}}}, true))
	if _, err := d.Create(t.Context(), req(w, id, func(spec *infrav1.VSphereMachineSpec) { spec.VMGroup = "licensed" })); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	if got, want := w.group("licensed"), []string{"DC0_C0_RP0_VM1", "worker-1"}; !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Terminated)
	if got, want := w.group("licensed"), []string{"DC0_C0_RP0_VM1"}; !slices.Equal(got, want) {
		t.Errorf("members %q, want %q: it was there before us", got, want)
	}
}

// TestFailureDomains: a zone is a compute cluster, or the failure domain of the machine.
func TestFailureDomains(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	for n, request := range map[string]driverRequest{
		"1": {Config: w.config("DC0_C1")},
		"2": {Config: w.config("east", func(spec *infrav1.VSphereMachineSpec) {
			spec.FailureDomains = []infrav1.VSphereFailureDomain{{Name: "east", VSpherePlacement: infrav1.VSpherePlacement{ComputeCluster: "DC0_C1"}}}
		})},
	} {
		request.Identity, request.Format = identity(n), "cloud-config"
		made, err := d.Create(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if made.FailureDomain != request.Config.Zone {
			t.Errorf("made in %q, want %q", made.FailureDomain, request.Config.Zone)
		}
		if found := await(t, d, identity(n), driver.Running); found.FailureDomain != request.Config.Zone {
			t.Errorf("found in %q, want %q", found.FailureDomain, request.Config.Zone)
		}
		pool, err := w.finder.ResourcePool(t.Context(), "DC0_C1/Resources")
		if err != nil {
			t.Fatal(err)
		}
		if got := *w.machine("worker-" + n).ResourcePool; got != pool.Reference() {
			t.Errorf("it is in pool %s, want %s", got, pool.Reference())
		}
	}
}

func (w *env) wantRule(name string, want []string) {
	w.t.Helper()
	var got []string
	for _, rule := range w.cluster("DC0_C0").Rule {
		if known, ok := rule.(*types.ClusterAntiAffinityRuleSpec); ok && known.Name == name {
			got = w.names(known.Vm)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("members of the rule (-want +got):\n%s", diff)
	}
}

func (w *env) group(name string) []string {
	w.t.Helper()
	for _, group := range w.cluster("DC0_C0").Group {
		if known, ok := group.(*types.ClusterVmGroup); ok && known.Name == name {
			return w.names(known.Vm)
		}
	}
	return nil
}

func (w *env) names(refs []types.ManagedObjectReference) (names []string) {
	w.t.Helper()
	for _, ref := range refs {
		names = append(names, w.name(ref))
	}
	slices.Sort(names)
	return names
}
