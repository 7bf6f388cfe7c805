// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/selectorcache"
	"drover.io/runtime/predicates"
)

// observe reads the Machines of the Cluster and groups them by check and by budget.
func (r *Reconciler) observe(ctx context.Context, s *state) error {
	key := client.ObjectKeyFromObject(s.cluster)
	var err error
	if s.all, err = index.MachinesOfCluster(ctx, r.Client, key); err != nil {
		return err
	}
	selector, err := r.selectors.Of(s.check)
	if s.specError = err; err != nil {
		return nil //nolint:nilerr // a condition reports it
	}
	own := selecting{s.check.Name, selector}
	older, err := r.olderChecks(ctx, s.check)
	if err != nil {
		return err
	}
	cost := s.choose(r.watch, own, older)
	r.looks.MarkReconciled(s.check.UID, len(s.all)+cost/comparisons)
	if _, s.specError = health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets)); s.specError != nil {
		return nil //nolint:nilerr // a condition reports it
	}
	return r.group(ctx, s, key)
}

// selecting is a check of a Cluster, with what it selects.
type selecting struct {
	name     string
	selector labels.Selector
}

// valueCost is what it costs to compare the labels of a Machine with the values of the selector, beside one of a single label:
// six values cost as much as that.
func (c selecting) valueCost() int { return selectorcache.Terms(c.selector) / 6 }

// comparisons is how many comparisons of a Machine with a selector of one label cost as much as all else about a Machine.
const comparisons = 50

// choose picks the targets: the Machines of the Cluster that the check's own selector selects, without those of another
// manager, those that are paused or exempt and those that an older check selects. It returns the cost of all comparisons but
// that of each Machine with a label of the check's own, in comparisons with a selector of one label.
func (s *state) choose(watch predicates.WatchFilter, own selecting, older []selecting) (cost int) {
	s.overlapping = map[string][]string{}
	ownCost, costs := own.valueCost(), []int{0} // costs are those of the comparisons with so many older checks
	for i, o := range older {
		costs = append(costs, costs[i]+1+o.valueCost())
	}
	for _, m := range s.all {
		if !watch.Matches(m) {
			continue
		}
		if cost += ownCost; !own.selector.Matches(labels.Set(m.Labels)) {
			continue
		}
		if health.Exempt(m) {
			s.exempt = append(s.exempt, m)
			continue
		}
		olderCheck := slices.IndexFunc(older, func(o selecting) bool { return o.selector.Matches(labels.Set(m.Labels)) })
		if olderCheck >= 0 {
			cost += costs[olderCheck+1]
			s.overlapping[older[olderCheck].name] = append(s.overlapping[older[olderCheck].name], m.Name)
			continue
		}
		cost += costs[len(older)]
		s.targets = append(s.targets, m)
	}
	slices.SortFunc(s.targets, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return cost
}

// olderChecks returns the checks that have precedence over this one where both select a Machine of its Cluster: older ones
// and, of those that are equally old, those whose name sorts first. One that is being deleted, or whose selector cannot be
// used, does not count.
func (r *Reconciler) olderChecks(ctx context.Context, check *clusterv1.MachineHealthCheck) ([]selecting, error) {
	checks, err := index.MachineHealthChecksOfCluster(ctx, r.Client, client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName})
	if err != nil {
		return nil, err
	}
	checks = slices.DeleteFunc(checks, func(other *clusterv1.MachineHealthCheck) bool {
		return !r.watch.Matches(other) || other.UID == check.UID || !other.DeletionTimestamp.IsZero() || compareAge(other, check) >= 0
	})
	slices.SortFunc(checks, compareAge)
	var older []selecting
	for _, other := range checks {
		if selector, err := r.selectors.Of(other); err == nil {
			older = append(older, selecting{other.Name, selector})
		}
	}
	return older, nil
}

func compareAge(a, b *clusterv1.MachineHealthCheck) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// group sorts the Machines by the budget that their replacement takes from: that of their
// MachineDeployment, or of whatever else controls them.
func (r *Reconciler) group(ctx context.Context, s *state, key client.ObjectKey) error {
	sets, err := index.MachineSetsOfCluster(ctx, r.Client, key)
	if err != nil {
		return err
	}
	s.groups, s.groupOf, s.sets = map[string]*group{}, map[types.UID]string{}, map[types.UID]*clusterv1.MachineSet{}
	above := map[types.UID]string{} // the group of each MachineSet
	for _, set := range sets {
		s.sets[set.UID] = set
		above[set.UID] = nameOf(set, "MachineSet "+set.Name)
		g := s.groupNamed(above[set.UID])
		g.inFlight = append(g.inFlight, health.InFlightReplacements(set)...)
		if metav1.GetControllerOfNoCopy(set) == nil {
			g.owner, g.replicas = set, set.Spec.Replicas
		}
	}
	for _, m := range s.all {
		name := nameOf(m, "")
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil && above[owner.UID] != "" {
			name = above[owner.UID]
		}
		if name == "" && s.check.Spec.Remediation.TemplateRef.IsDefined() {
			name = "MachineHealthCheck " + s.check.Name
		}
		if name != "" {
			s.groupOf[m.UID] = name
			g := s.groupNamed(name)
			g.machines = append(g.machines, m)
		}
	}
	deployments, err := index.MachineDeploymentsOfCluster(ctx, r.Client, key)
	if err != nil {
		return err
	}
	for _, md := range deployments {
		if g := s.groups["MachineDeployment "+md.Name]; g != nil {
			g.owner, g.replicas = md, md.Spec.Replicas
		}
	}
	return r.limit(ctx, s)
}

// limit reads the budget of each group that has a target.
func (r *Reconciler) limit(ctx context.Context, s *state) error {
	done := map[string]bool{"": true}
	for _, m := range s.targets {
		name := s.groupOf[m.UID]
		if done[name] {
			continue
		}
		done[name] = true
		g := s.groups[name]
		policy, err := r.Guard.PolicyFor(ctx, g.owner)
		if err != nil {
			return err
		}
		replicas := len(g.machines)
		if g.replicas != nil {
			replicas = int(*g.replicas)
		}
		g.limit = policy.PerOwner.Of(replicas)
	}
	return nil
}

func (s *state) groupNamed(name string) *group {
	if s.groups[name] == nil {
		s.groups[name] = &group{}
	}
	return s.groups[name]
}

// nameOf names the controller of an object; fallback is for one without.
func nameOf(object client.Object, fallback string) string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return fallback
}

// behind reports whether the cache shows any of the Machines older than the last write.
func (r *Reconciler) behind(machines []*clusterv1.Machine) bool {
	behind := false
	for _, m := range machines {
		behind = r.writes.Behind(m) || behind
	}
	return behind
}
