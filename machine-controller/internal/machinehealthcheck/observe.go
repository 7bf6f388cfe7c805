// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
)

// ward is one MachineHealthCheck with its Machines, and all that is known about them.
type ward struct {
	check   *clusterv1.MachineHealthCheck
	cluster *clusterv1.Cluster
	// all are the Machines of the Cluster; targets are those of the check, by name.
	all, targets []*clusterv1.Machine
	// exempt are the selected Machines that somebody has taken out of health checks.
	exempt []*clusterv1.Machine
	// yielded are the selected Machines that an older check looks after, by its name.
	yielded map[string][]string
	groups  map[string]*group
	// sets are the MachineSets of the Cluster, by UID.
	sets map[types.UID]*clusterv1.MachineSet
	// groupOf names the group of each Machine that somebody could replace.
	groupOf map[types.UID]string

	// trouble is what in the spec prevents any decision.
	trouble error
	// stale says that the cache is older than our own writes.
	stale bool
	// blind says why the workload cluster cannot be seen; empty if it can.
	blind string
	since time.Time
	nodes map[types.UID][]*corev1.Node

	findings map[string]health.Finding
	decision health.Decision
	decided  bool
}

// group are the Machines that share a replacement budget, with its limit. The fleet is the
// MachineDeployment or MachineSet that the budget is of; nil where something else owns them.
type group struct {
	fleet     client.Object
	replicas  *int32
	machines  []*clusterv1.Machine
	vacancies []health.Vacancy
	limit     int
}

// own keeps the check's cluster label and the owner reference to its Cluster.
func own(s *ward) {
	if s.check.Labels == nil {
		s.check.Labels = map[string]string{}
	}
	s.check.Labels[clusterv1.ClusterNameLabel] = s.cluster.Name
	for _, reference := range s.check.OwnerReferences {
		if reference.UID == s.cluster.UID {
			return
		}
	}
	s.check.OwnerReferences = append(s.check.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
	})
}

// gather reads the Machines of the Cluster and sorts them by check and by budget.
func (r *Reconciler) observe(ctx context.Context, s *ward) error {
	key := client.ObjectKeyFromObject(s.cluster)
	var err error
	if s.all, err = index.MachinesOfCluster(ctx, r.Client, key); err != nil {
		return err
	}
	if _, s.trouble = selector(s.check); s.trouble != nil {
		return nil //nolint:nilerr // it is told in a condition
	}
	elders, err := r.elders(ctx, s.check)
	if err != nil {
		return err
	}
	s.choose(r.watch, elders)
	if _, s.trouble = health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets)); s.trouble != nil {
		return nil //nolint:nilerr // it is told in a condition
	}
	return r.group(ctx, s, key)
}

// choose picks the targets: the selected Machines, without those of another manager, those that
// are paused or exempt and those that an older check looks after.
func (s *ward) choose(watch predicates.WatchFilter, elders []*clusterv1.MachineHealthCheck) {
	s.yielded = map[string][]string{}
	for _, m := range s.all {
		if !watch.Matches(m) || !selects(s.check, m) {
			continue
		}
		if health.Exempt(m) {
			s.exempt = append(s.exempt, m)
			continue
		}
		elder := slices.IndexFunc(elders, func(e *clusterv1.MachineHealthCheck) bool { return selects(e, m) })
		if elder >= 0 {
			s.yielded[elders[elder].Name] = append(s.yielded[elders[elder].Name], m.Name)
			continue
		}
		s.targets = append(s.targets, m)
	}
	slices.SortFunc(s.targets, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
}

func selector(check *clusterv1.MachineHealthCheck) (labels.Selector, error) {
	if len(check.Spec.Selector.MatchLabels) == 0 && len(check.Spec.Selector.MatchExpressions) == 0 {
		return nil, fmt.Errorf("spec.selector: it is empty; name the labels of the Machines to check")
	}
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// selects reports whether a check is about a Machine.
func selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	matches, err := selector(check)
	return err == nil && check.Namespace == m.Namespace && check.Spec.ClusterName == m.Spec.ClusterName && matches.Matches(labels.Set(m.Labels))
}

// elders are the checks that come before this one where both select a Machine: older ones
// and, of those that are equally old, those whose name sorts first. One that is being
// deleted comes before nobody.
func (r *Reconciler) elders(ctx context.Context, check *clusterv1.MachineHealthCheck) ([]*clusterv1.MachineHealthCheck, error) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := r.Client.List(ctx, list, client.InNamespace(check.Namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	var elders []*clusterv1.MachineHealthCheck
	for i := range list.Items {
		other := &list.Items[i]
		if r.watch.Matches(other) && other.UID != check.UID && other.DeletionTimestamp.IsZero() && seniority(other, check) < 0 {
			elders = append(elders, other)
		}
	}
	slices.SortFunc(elders, seniority)
	return elders, nil
}

func seniority(a, b *clusterv1.MachineHealthCheck) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// group sorts the Machines by the budget that their replacement takes from: that of their
// MachineDeployment, or of whatever else controls them.
func (r *Reconciler) group(ctx context.Context, s *ward, key client.ObjectKey) error {
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
		g.vacancies = append(g.vacancies, health.Vacancies(set)...)
		if metav1.GetControllerOfNoCopy(set) == nil {
			g.fleet, g.replicas = set, set.Spec.Replicas
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
			g.fleet, g.replicas = md, md.Spec.Replicas
		}
	}
	return r.limit(ctx, s)
}

// limit asks for the budget of each group that a target is of.
func (r *Reconciler) limit(ctx context.Context, s *ward) error {
	asked := map[string]bool{"": true}
	for _, m := range s.targets {
		name := s.groupOf[m.UID]
		if asked[name] {
			continue
		}
		asked[name] = true
		g := s.groups[name]
		policy, err := r.Guard.PolicyFor(ctx, g.fleet)
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

func (s *ward) groupNamed(name string) *group {
	if s.groups[name] == nil {
		s.groups[name] = &group{}
	}
	return s.groups[name]
}

// nameOf names the controller of an object; fallback stands for one without.
func nameOf(object client.Object, fallback string) string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return fallback
}

// see looks at the Nodes of the targets. It reports whether they can be seen as they are.
func (r *Reconciler) see(s *ward) bool {
	key := client.ObjectKeyFromObject(s.cluster)
	known := r.Workloads.State(key)
	connection, err := r.Workloads.Get(key)
	reach := r.Guard.Management()
	switch {
	case !reach.Reachable():
		s.blind = "The management cluster does not answer"
	case err != nil && known.Message != "":
		s.blind = "Not connected to the workload cluster: " + known.Message
	case err != nil:
		s.blind = "Not connected to the workload cluster yet"
	case !connection.Synced():
		s.blind = "The Nodes of the workload cluster cannot be listed and watched"
	}
	if s.blind != "" {
		return false
	}
	s.since, s.nodes = known.ConnectedSince, map[types.UID][]*corev1.Node{}
	if reach.Since.After(s.since) {
		s.since = reach.Since
	}
	for _, m := range s.targets {
		s.nodes[m.UID] = nodesOf(connection, m)
	}
	return true
}

// nodesOf finds a Machine's Node by providerID. A Node of the name that is known, without
// any providerID, has just registered again.
func nodesOf(connection *workload.Connection, m *clusterv1.Machine) []*corev1.Node {
	if m.Spec.ProviderID != "" {
		if nodes := connection.NodesByProviderID(m.Spec.ProviderID); len(nodes) > 0 {
			return nodes
		}
	}
	if node, found := connection.Node(m.Status.NodeRef.Name); found && node.Spec.ProviderID == "" {
		return []*corev1.Node{node}
	}
	return nil
}

// behind reports whether the cache shows any of the Machines older than our last write.
func (r *Reconciler) behind(machines []*clusterv1.Machine) bool {
	behind := false
	for _, m := range machines {
		behind = r.writes.Behind(m) || behind
	}
	return behind
}
