// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/vcenter"
)

// TestChangesOfAClusterLoseNoMember: a machine joins a group and has ended that before another, which has read the compute cluster
// already, joins too.
func TestChangesOfAClusterLoseNoMember(t *testing.T) {
	t.Parallel()
	simulator.Test(func(ctx context.Context, client *vim25.Client) {
		addGroup(ctx, t, client, "licensed")
		first, second := inLicensed(ctx, t, client, "DC0_C0_RP0_VM0"), inLicensed(ctx, t, client, "DC0_C0_RP0_VM1")
		steps := &Steps{}
		reads := 0
		task, err := steps.change(ctx, client, second, change{due: func(cluster vcenter.Cluster) bool {
			if reads++; reads == 1 {
				join(ctx, t, steps, client, first)
			}
			return !inGroup(cluster, second)
		}, wanted: withMember(second)})
		if task == nil || err != nil {
			t.Fatalf("the second machine joined with task %v and error %v", task, err)
		}
		await(ctx, t, client, task)
		checkGroup(ctx, t, client, first, second)
	})
}

// TestOtherAccountsLoseNoMember has two accounts of one vCenter, which know nothing of each other's changes.
func TestOtherAccountsLoseNoMember(t *testing.T) {
	t.Parallel()
	for name, atLast := range map[string]bool{"while the other lists the members of its rule": false, "just before the other writes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulator.Test(func(ctx context.Context, client *vim25.Client) {
				addGroup(ctx, t, client, "licensed")
				first, second := inLicensed(ctx, t, client, "DC0_C0_RP0_VM0"), inLicensed(ctx, t, client, "DC0_C0_RP0_VM1")
				first.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOn
				own, other := &Steps{}, &Steps{}
				task, err := other.change(ctx, client, second, change{
					due: func(cluster vcenter.Cluster) bool { return !inGroup(cluster, second) },
					prepare: func(vcenter.Cluster) error {
						if !atLast {
							join(ctx, t, own, client, first)
						}
						return nil
					},
					wanted: func(cluster vcenter.Cluster) (*types.ClusterConfigSpecEx, error) {
						if atLast {
							join(ctx, t, own, client, first)
						}
						return withMember(second)(cluster)
					},
				})
				if task == nil || err != nil {
					t.Fatalf("the other's machine joined with task %v and error %v", task, err)
				}
				await(ctx, t, client, task)
				if atLast { // the plan is not done yet
					if task, err = own.up(ctx, client, first); task == nil || err != nil {
						t.Fatalf("task %v, error %v", task, err)
					}
					await(ctx, t, client, task)
				}
				checkGroup(ctx, t, client, first, second)
			})
		})
	}
}

// withMember adds a virtual machine to the group "licensed".
func withMember(vm VM) func(vcenter.Cluster) (*types.ClusterConfigSpecEx, error) {
	return func(cluster vcenter.Cluster) (*types.ClusterConfigSpecEx, error) {
		group := cluster.Group("licensed")
		return &types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{groupChange(group, append(slices.Clone(group.Vm), vm.Self))}}, nil
	}
}

func checkGroup(ctx context.Context, t *testing.T, client *vim25.Client, first, second VM) {
	t.Helper()
	if cluster, err := clusterOf(ctx, client, second); err != nil || !inGroup(cluster, first) || !inGroup(cluster, second) {
		t.Errorf("the group has %v (%v), and both machines joined it", cluster.Group("licensed").Vm, err)
	}
}

// TestChangesOfAClusterAreBounded: a server that a Secret names chooses what its compute clusters are called.
func TestChangesOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	simulator.Test(func(ctx context.Context, client *vim25.Client) {
		addGroup(ctx, t, client, "licensed")
		vm := inLicensed(ctx, t, client, "DC0_C0_RP0_VM0")
		steps := &Steps{changes: map[types.ManagedObjectReference]types.ManagedObjectReference{}}
		for i := range maxChanges {
			steps.changes[types.ManagedObjectReference{Value: strconv.Itoa(i)}] = types.ManagedObjectReference{}
		}
		if task, err := steps.join(ctx, client, vm); task != nil || realFailure(err) != nil || err == nil {
			t.Errorf("a change beyond the limit: task %v, error %v", task, err)
		}

		pool := simulator.Map(ctx).Get(*vm.ResourcePool).(*simulator.ResourcePool)
		pool.Owner = types.ManagedObjectReference{Type: "ComputeResource", Value: strings.Repeat("a", 1<<20)}
		if _, err := (&Steps{}).join(ctx, client, vm); err == nil || !strings.Contains(err.Error(), "longer than any") {
			t.Errorf("a compute cluster with a long reference: %v", err)
		}
	})
}

func addGroup(ctx context.Context, t *testing.T, client *vim25.Client, name string) {
	t.Helper()
	cluster, err := find.NewFinder(client).ClusterComputeResource(ctx, "/DC0/host/DC0_C0")
	if err != nil {
		t.Fatal(err)
	}
	task, err := start(cluster.Reconfigure(ctx, &types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info:            &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name}},
	}}}, true))
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, client, task)
}

// inLicensed returns a virtual machine that is to be a member of the group "licensed".
func inLicensed(ctx context.Context, t *testing.T, client *vim25.Client, name string) VM {
	t.Helper()
	found, err := find.NewFinder(client).VirtualMachine(ctx, "/DC0/vm/"+name)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := found.ResourcePool(ctx)
	if err != nil {
		t.Fatal(err)
	}
	vm := VM{Record: Record{Group: "licensed"}}
	ref := pool.Reference()
	vm.Self, vm.ResourcePool = found.Reference(), &ref
	return vm
}

func join(ctx context.Context, t *testing.T, steps *Steps, client *vim25.Client, vm VM) {
	t.Helper()
	task, err := steps.join(ctx, client, vm)
	if task == nil || err != nil {
		t.Fatalf("joining the group: task %v, error %v", task, err)
	}
	await(ctx, t, client, task)
}

func await(ctx context.Context, t *testing.T, client *vim25.Client, task Task) {
	t.Helper()
	if err := object.NewTask(client, *task).Wait(ctx); err != nil {
		t.Fatal(err)
	}
}
