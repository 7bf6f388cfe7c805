// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/vcenter"
)

// join makes the virtual machine a member of its rule and group.
func (s *Steps) join(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	name := vm.Record.ownRule()
	var members []types.ManagedObjectReference
	return s.change(ctx, client, vm, change{
		due: func(cluster vcenter.Cluster) bool {
			return name != "" && !inRule(cluster, name, vm) || vm.Record.Group != "" && !inGroup(cluster, vm)
		},
		prepare: func(cluster vcenter.Cluster) (err error) {
			if name != "" && !inRule(cluster, name, vm) { // all members are added at once, so that a hundred new ones need one change
				members, err = s.members(ctx, client, cluster, name)
			}
			return err
		},
		wanted: func(cluster vcenter.Cluster) (*types.ClusterConfigSpecEx, error) {
			spec := &types.ClusterConfigSpecEx{}
			if name != "" && members != nil && !inRule(cluster, name, vm) {
				if rule := ruleChange(cluster.Rule(name), name, members); rule != nil {
					spec.RulesSpec = append(spec.RulesSpec, *rule)
				}
			}
			if name := vm.Record.Group; name != "" && !inGroup(cluster, vm) {
				group := cluster.Group(name)
				if group == nil {
					return nil, fmt.Errorf("spec.vmGroup: the compute cluster has no VM group %q any more", name)
				}
				spec.GroupSpec = append(spec.GroupSpec, groupChange(group, append(slices.Clone(group.Vm), vm.Self)))
			}
			return spec, nil
		},
	})
}

// leave removes the virtual machine from its rule and group. A rule with fewer than two members is removed.
func (s *Steps) leave(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	return s.change(ctx, client, vm, change{due: func(cluster vcenter.Cluster) bool {
		return inRule(cluster, vm.Record.ownRule(), vm) || inGroup(cluster, vm)
	}, wanted: func(cluster vcenter.Cluster) (*types.ClusterConfigSpecEx, error) {
		self := func(member types.ManagedObjectReference) bool { return member == vm.Self }
		spec := &types.ClusterConfigSpecEx{}
		if inRule(cluster, vm.Record.ownRule(), vm) {
			rule := cluster.Rule(vm.Record.ownRule())
			spec.RulesSpec = append(spec.RulesSpec, *ruleChange(rule, rule.Name, slices.DeleteFunc(slices.Clone(rule.Vm), self)))
		}
		if inGroup(cluster, vm) {
			group := cluster.Group(vm.Record.Group)
			spec.GroupSpec = append(spec.GroupSpec, groupChange(group, slices.DeleteFunc(slices.Clone(group.Vm), self)))
		}
		return spec, nil
	}})
}

func inRule(cluster vcenter.Cluster, name string, vm VM) bool {
	rule := cluster.Rule(name)
	return rule != nil && slices.Contains(rule.Vm, vm.Self)
}

func inGroup(cluster vcenter.Cluster, vm VM) bool {
	group := cluster.Group(vm.Record.Group)
	return group != nil && slices.Contains(group.Vm, vm.Self)
}

// errChanging means that the rules and groups of a compute cluster are being changed for another virtual machine.
var errChanging = errors.New("the rules or groups of a compute cluster are being changed for another virtual machine")

// maxChanges is how many compute clusters have a change under way at most, beyond what one vCenter manages. A server that a Secret
// names chooses their references.
const maxChanges = 1000

// change is one of the rules and groups of a compute cluster.
type change struct {
	// due reports whether the cluster needs it.
	due func(vcenter.Cluster) bool
	// prepare does what takes time, before the cluster is read for the change; nil for nothing.
	prepare func(vcenter.Cluster) error
	// wanted returns the change; empty for none.
	wanted func(vcenter.Cluster) (*types.ClusterConfigSpecEx, error)
}

// change starts a change for the compute cluster of the virtual machine, if it is due, or returns the one that is under way. Rules
// and groups are replaced as wholes, so the cluster is read after the change before, and just before this one. No other change of
// this account begins between; one of another account or tool may, and removes a member that was added then. Where another change
// is about to begin, it fails with errChanging.
func (s *Steps) change(ctx context.Context, client *vim25.Client, vm VM, c change) (Task, error) {
	if vm.Record.ownRule() == "" && vm.Record.Group == "" {
		return nil, nil
	}
	cluster, err := clusterOf(ctx, client, vm)
	if err != nil || !c.due(cluster) {
		return nil, err
	}
	if err := vcenter.CheckReference(cluster.Ref); err != nil {
		return nil, err
	}
	if !s.changing.TryLock() {
		return nil, errChanging
	}
	defer s.changing.Unlock()
	if last, err := s.lastChange(ctx, client, cluster.Ref); last != nil || err != nil {
		return last, err
	}
	if len(s.changes) >= maxChanges {
		return nil, errChanging
	}
	if c.prepare != nil {
		if err := c.prepare(cluster); err != nil {
			return nil, err
		}
	}
	return s.begin(ctx, client, vm, c)
}

// begin reads the cluster, starts the change if it is still due, and records it.
func (s *Steps) begin(ctx context.Context, client *vim25.Client, vm VM, c change) (Task, error) {
	cluster, err := clusterOf(ctx, client, vm)
	if err != nil || !c.due(cluster) {
		return nil, err
	}
	spec, err := c.wanted(cluster)
	if err != nil || len(spec.RulesSpec)+len(spec.GroupSpec) == 0 {
		return nil, err
	}
	task, err := start(object.NewClusterComputeResource(client, cluster.Ref).Reconfigure(ctx, spec, true))
	if err != nil {
		return nil, err
	}
	if s.changes == nil {
		s.changes = map[types.ManagedObjectReference]types.ManagedObjectReference{}
	}
	s.changes[cluster.Ref] = *task
	return task, nil
}

// lastChange returns the change of a compute cluster that is under way; nil if the last one has ended.
func (s *Steps) lastChange(ctx context.Context, client *vim25.Client, cluster types.ManagedObjectReference) (Task, error) {
	last, ok := s.changes[cluster]
	if !ok {
		return nil, nil
	}
	infos, err := vcenter.Results(ctx, client, last)
	if err != nil {
		return nil, err
	}
	if vcenter.Running(infos[last]) {
		return &last, nil
	}
	delete(s.changes, cluster)
	return nil, nil
}

func clusterOf(ctx context.Context, client *vim25.Client, vm VM) (vcenter.Cluster, error) {
	if vm.ResourcePool == nil {
		return vcenter.Cluster{Config: &types.ClusterConfigInfoEx{}}, nil
	}
	return vcenter.ClusterOf(ctx, client, *vm.ResourcePool)
}

// members are all virtual machines in the cluster whose record names the rule.
func (s *Steps) members(ctx context.Context, client *vim25.Client, cluster vcenter.Cluster, rule string) ([]types.ManagedObjectReference, error) {
	var members []types.ManagedObjectReference
	inside := map[types.ManagedObjectReference]bool{}
	for vm, err := range s.Session.List(ctx, s.PageSize) {
		if err != nil {
			return nil, err
		}
		record, _, err := Parse(vm)
		if err != nil || record.ownRule() != rule || vm.ResourcePool == nil || vm.Config == nil || vm.Config.Template {
			continue
		}
		pool := *vm.ResourcePool
		if _, known := inside[pool]; !known {
			at, err := vcenter.ClusterOf(ctx, client, pool)
			if err != nil {
				return nil, err
			}
			inside[pool] = at.Ref == cluster.Ref
		}
		if inside[pool] {
			members = append(members, vm.Self)
		}
	}
	slices.SortFunc(members, func(a, b types.ManagedObjectReference) int { return cmp.Compare(a.Value, b.Value) })
	return members, nil
}

// ruleChange changes a rule to its members, of which it needs two. It returns nil when no change is needed.
func ruleChange(rule *types.ClusterAntiAffinityRuleSpec, name string, members []types.ManagedObjectReference) *types.ClusterRuleSpec {
	switch {
	case rule == nil && len(members) < 2:
		return nil
	case len(members) < 2:
		return &types.ClusterRuleSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationRemove, RemoveKey: rule.Key}}
	case rule == nil:
		enabled := true
		return &types.ClusterRuleSpec{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
			Info: &types.ClusterAntiAffinityRuleSpec{
				ClusterRuleInfo: types.ClusterRuleInfo{Name: name, Enabled: &enabled, UserCreated: &enabled},
				Vm:              members,
			},
		}
	}
	missing := func(member types.ManagedObjectReference) bool { return !slices.Contains(rule.Vm, member) }
	if len(rule.Vm) == len(members) && !slices.ContainsFunc(members, missing) {
		return nil
	}
	changed := *rule
	changed.Vm = members
	return &types.ClusterRuleSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &changed}
}

func groupChange(group *types.ClusterVmGroup, members []types.ManagedObjectReference) types.ClusterGroupSpec {
	changed := *group
	changed.Vm = members
	return types.ClusterGroupSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &changed}
}
