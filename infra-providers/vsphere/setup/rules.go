// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/vcenter"
)

// join makes the virtual machine a member of its rule and group.
func (s *Steps) join(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	if vm.Record.ownRule() == "" && vm.Record.Group == "" {
		return nil, nil
	}
	cluster, err := clusterOf(ctx, client, vm)
	if err != nil {
		return nil, err
	}
	spec := &types.ClusterConfigSpecEx{}
	rule := cluster.Rule(vm.Record.ownRule())
	if name := vm.Record.ownRule(); name != "" && (rule == nil || !slices.Contains(rule.Vm, vm.Self)) {
		// All members are added at once, so that a hundred new ones need one change.
		members, err := s.members(ctx, client, cluster, name)
		if err != nil {
			return nil, err
		}
		if change := ruleChange(rule, name, members); change != nil {
			spec.RulesSpec = append(spec.RulesSpec, *change)
		}
	}
	if name := vm.Record.Group; name != "" {
		group := cluster.Group(name)
		if group == nil {
			return nil, fmt.Errorf("spec.vmGroup: the compute cluster has no VM group %q any more", name)
		}
		if !slices.Contains(group.Vm, vm.Self) {
			spec.GroupSpec = append(spec.GroupSpec, groupChange(group, append(slices.Clone(group.Vm), vm.Self)))
		}
	}
	return s.change(ctx, client, cluster, spec)
}

// leave removes the virtual machine from its rule and group. A rule with fewer than two members is removed.
func (s *Steps) leave(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	if vm.Record.ownRule() == "" && vm.Record.Group == "" {
		return nil, nil
	}
	cluster, err := clusterOf(ctx, client, vm)
	if err != nil {
		return nil, err
	}
	self := func(member types.ManagedObjectReference) bool { return member == vm.Self }
	spec := &types.ClusterConfigSpecEx{}
	if rule := cluster.Rule(vm.Record.ownRule()); rule != nil && slices.ContainsFunc(rule.Vm, self) {
		left := slices.DeleteFunc(slices.Clone(rule.Vm), self)
		spec.RulesSpec = append(spec.RulesSpec, *ruleChange(rule, rule.Name, left))
	}
	if group := cluster.Group(vm.Record.Group); group != nil && slices.ContainsFunc(group.Vm, self) {
		spec.GroupSpec = append(spec.GroupSpec, groupChange(group, slices.DeleteFunc(slices.Clone(group.Vm), self)))
	}
	return s.change(ctx, client, cluster, spec)
}

// change starts a change of the cluster, or returns the one that is under way.
func (s *Steps) change(ctx context.Context, client *vim25.Client, cluster vcenter.Cluster, spec *types.ClusterConfigSpecEx) (Task, error) {
	if len(spec.RulesSpec)+len(spec.GroupSpec) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.busy[cluster.Ref]; ok {
		infos, err := vcenter.Results(ctx, client, last)
		if err != nil {
			return nil, err
		}
		if vcenter.Running(infos[last]) {
			return &last, nil
		}
		delete(s.busy, cluster.Ref)
		// The cluster may have been read before that change ended, and is read again by the next step.
		return &last, nil
	}
	task, err := start(object.NewClusterComputeResource(client, cluster.Ref).Reconfigure(ctx, spec, true))
	if err != nil {
		return nil, err
	}
	if s.busy == nil {
		s.busy = map[types.ManagedObjectReference]types.ManagedObjectReference{}
	}
	s.busy[cluster.Ref] = *task
	return task, nil
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
