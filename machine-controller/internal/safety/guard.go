// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package safety applies the limits on creating and replacing Machines to a Cluster. The Guard reads the Machines and
// the MachinePolicies from the cache, adds what it has allowed and the cache does not show yet, and decides with the
// pure packages budget and freeze. It also probes the management cluster. It creates and deletes nothing: the
// machineset, machinedeployment, machine and machinehealthcheck controllers call it before they act.
package safety

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
)

// RetryPeriod is how long after a refusal to try again: not every change that lifts one triggers a reconcile.
const RetryPeriod = 10 * time.Second

// +kubebuilder:rbac:groups=policy.drover.io,resources=machinepolicies,verbs=list;watch

// Guard decides how many Machines may be created or replaced now, and reserves what it has allowed until the cache shows
// it. All fields are required.
type Guard struct {
	// Reader reads the manager's cache.
	Reader client.Reader
	// Watch matches the MachinePolicies of this manager.
	Watch predicates.WatchFilter
	// Workload returns the state of the connection to a workload cluster.
	Workload func(cluster client.ObjectKey) workload.State
	// Management returns whether the management cluster is reachable.
	Management func() Reachability
	// Default applies to what no MachinePolicy selects.
	Default policy.Settings
	// Period is how long there must be too many Machines before their owner is frozen.
	Period time.Duration
	Clock  clock.PassiveClock

	once         sync.Once
	reservations *reservations
	selectors    policy.Selectors
}

func (g *Guard) reserved() *reservations {
	g.once.Do(func() { g.reservations = newReservations(g.Clock) })
	return g.reservations
}

// Create decides how many of the Machines that the MachineSet lacks may be created now. The caller must have seen in its
// cache everything that it has created for the set before.
func (g *Guard) Create(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, want int) (budget.Decision, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.reserved().lock(key)()
	g.reserved().dropCreations(set.UID)
	s, err := g.observe(ctx, cluster, set)
	if err != nil {
		return budget.Decision{}, err
	}
	if s.settings.PendingPerCluster > 0 {
		err = g.addCluster(ctx, s)
	} else {
		err = g.addOwner(ctx, s)
	}
	if err != nil {
		return budget.Decision{}, err
	}
	decision := budget.Gate{Policy: s.settings}.AllowCreation(s.state, want)
	if decision.Refusal != nil {
		denials.Inc(creation, decision.Refusal.Reason)
	}
	g.reserved().reserveCreations(set.UID, decision.Allowed, s.known)
	return decision, nil
}

// Replace decides which of the unhealthy Machines of the MachineSet may be deleted now. The caller must delete those that
// are allowed, and only those; it must have seen in its cache everything that it has deleted of the set before, so that
// it passes one whose deletion failed again.
func (g *Guard) Replace(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, unhealthy []*clusterv1.Machine) (budget.Choice, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.reserved().lock(key)()
	names := make([]string, 0, len(unhealthy))
	uids := make(map[string]types.UID, len(unhealthy))
	for _, m := range unhealthy {
		names = append(names, m.Name)
		uids[m.Name] = m.UID
		g.reserved().cancelReplacement(m.UID)
	}
	s, err := g.observe(ctx, cluster, set)
	if err != nil {
		return budget.Choice{}, err
	}
	if err := g.addCluster(ctx, s); err != nil {
		return budget.Choice{}, err
	}
	choice := budget.Gate{Policy: s.settings}.AllowRemediation(s.state, names)
	denied(replacement, choice.Refused)
	for _, name := range choice.Allowed {
		g.reserved().reserveReplacement(uids[name])
	}
	return choice, nil
}

// ReplacementRefused records that a Machine that Replace has allowed was not deleted, and is not about to be.
func (g *Guard) ReplacementRefused(machine types.UID) { g.reserved().cancelReplacement(machine) }

// PolicyFor returns the settings for the Machines of a MachineDeployment, or of a MachineSet without one; owner is nil for
// a Machine without either. Where no MachinePolicy has a budget for it, spec.remediation.maxInFlight of a
// MachineDeployment is the budget.
func (g *Guard) PolicyFor(ctx context.Context, owner client.Object) (policy.Settings, error) {
	if owner == nil {
		return g.Default, nil
	}
	list := &droverpolicyv1.MachinePolicyList{}
	if err := g.Reader.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return policy.Settings{}, fmt.Errorf("listing MachinePolicies: %w", err)
	}
	settings := g.Default
	if md, is := owner.(*clusterv1.MachineDeployment); is && md.Spec.Remediation.MaxInFlight != nil {
		if limit, err := health.Limit(md.Spec.Remediation.MaxInFlight, replicas(md, md.Spec.Replicas)); err == nil {
			settings.PerOwner = policy.Number(limit)
		}
	}
	ours := slices.DeleteFunc(slices.Clone(list.Items), func(p droverpolicyv1.MachinePolicy) bool { return !g.Watch.Matches(&p) })
	for _, candidate := range g.selectors.Candidates(ours) {
		if candidate.Selects(owner.GetLabels()) {
			// A field that cannot be parsed, which the API server would have refused, keeps its default.
			settings, _ = settings.Over(candidate.MachinePolicy)
			break
		}
	}
	return settings, nil
}

// Unreachable returns why nothing of the Cluster may be created or replaced for want of an API server that answers, or of
// a claim on the workload cluster; nil if nothing is missing.
func (g *Guard) Unreachable(cluster *clusterv1.Cluster) *budget.Refusal {
	initialized := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	state := g.Workload(client.ObjectKeyFromObject(cluster))
	return cmp.Or(managementUnreachable(g.Management()), workloadUnreachable(initialized, state), notClaimed(initialized, state))
}

// NotClaimed returns why Machines may not be deleted on a scale-down either: this management cluster may be a copy of the
// one that acts on the workload cluster.
func (g *Guard) NotClaimed(cluster *clusterv1.Cluster) *budget.Refusal {
	initialized := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	return notClaimed(initialized, g.Workload(client.ObjectKeyFromObject(cluster)))
}

// CreationsObserved records that the cache shows everything that was created for the MachineSet.
func (g *Guard) CreationsObserved(set types.UID) { g.reserved().dropCreations(set) }
