// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
)

// RetryPeriod is when to ask again after a refusal: not every change that lifts one wakes
// whoever was refused.
const RetryPeriod = 10 * time.Second

// +kubebuilder:rbac:groups=policy.drover.io,resources=machinepolicies,verbs=get;list;watch

// Guard gathers what a Gate needs to know, asks it, and remembers what was allowed until the
// cache shows it. All fields are required.
type Guard struct {
	// Reader reads the manager's cache.
	Reader client.Reader
	// Watch says which MachinePolicies are the manager's.
	Watch predicates.WatchFilter
	// Workload tells how the connection to a workload cluster is doing.
	Workload func(cluster client.ObjectKey) workload.State
	// Management tells whether the management cluster can be reached.
	Management func() Reachability
	// Default is the policy for what no MachinePolicy selects.
	Default Policy
	// Period is how long there must be too many Machines before a owner is frozen.
	Period time.Duration
	Clock  clock.PassiveClock

	reservations reservations
	selectors    Selectors
}

// Create decides how many of the Machines that the MachineSet lacks may be made now. The
// caller must have seen in its cache everything that it has created for the set before.
func (g *Guard) Create(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, want int) (Decision, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.reservations.lock(key)()
	g.reservations.dropCreations(set.UID)
	observed, err := g.observe(ctx, cluster, set)
	if err != nil {
		return Decision{}, err
	}
	if observed.policy.PendingPerCluster > 0 {
		err = g.addCluster(ctx, observed)
	} else {
		err = g.addOwner(ctx, observed)
	}
	if err != nil {
		return Decision{}, err
	}
	decision := Gate{observed.policy}.Create(observed.state, want)
	g.reservations.reserveCreations(set.UID, decision.Allowed, observed.known, g.Clock.Now())
	return decision, nil
}

// Replace decides which of the unhealthy Machines of the MachineSet may be deleted now. The
// caller must delete those that are allowed, and only those; it must have seen in its cache
// everything that it has deleted of the set before, so that one whose deletion failed is
// asked about again.
func (g *Guard) Replace(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, unhealthy []*clusterv1.Machine) (Choice, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.reservations.lock(key)()
	names := make([]string, 0, len(unhealthy))
	uids := make(map[string]types.UID, len(unhealthy))
	for _, m := range unhealthy {
		names = append(names, m.Name)
		uids[m.Name] = m.UID
		g.reservations.cancelReplacement(m.UID)
	}
	observed, err := g.observe(ctx, cluster, set)
	if err != nil {
		return Choice{}, err
	}
	if err := g.addCluster(ctx, observed); err != nil {
		return Choice{}, err
	}
	choice := Gate{observed.policy}.Replace(observed.state, names)
	for _, name := range choice.Allowed {
		g.reservations.reserveReplacement(uids[name], g.Clock.Now())
	}
	return choice, nil
}

// PolicyFor returns the policy for the Machines of a MachineDeployment, or of a MachineSet
// that stands alone; nil is a Machine that stands alone itself. Where no MachinePolicy has a
// budget for it, a MachineDeployment's spec.remediation.maxInFlight stands.
func (g *Guard) PolicyFor(ctx context.Context, owner client.Object) (Policy, error) {
	if owner == nil {
		return g.Default, nil
	}
	list := &policyv1.MachinePolicyList{}
	if err := g.Reader.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return Policy{}, fmt.Errorf("listing MachinePolicies: %w", err)
	}
	policy := g.Default
	if md, is := owner.(*clusterv1.MachineDeployment); is && md.Spec.Remediation.MaxInFlight != nil {
		if limit, err := health.Limit(md.Spec.Remediation.MaxInFlight, replicas(md, md.Spec.Replicas)); err == nil {
			policy.PerOwner = Number(limit)
		}
	}
	ours := slices.DeleteFunc(slices.Clone(list.Items), func(p policyv1.MachinePolicy) bool { return !g.Watch.Matches(&p) })
	for _, candidate := range g.selectors.Candidates(ours) {
		if candidate.Selects(owner.GetLabels()) {
			// A field that cannot be read, which the API server would have refused, stands at
			// its default.
			policy, _ = policy.Over(candidate.MachinePolicy)
			break
		}
	}
	return policy, nil
}

// snapshot is a State in the making.
type snapshot struct {
	cluster    *clusterv1.Cluster
	set        *clusterv1.MachineSet
	deployment *clusterv1.MachineDeployment
	policy     Policy
	state      State
	// known are the Machines of the set that asks.
	known map[types.UID]bool
}

// observe finds the owner that the MachineSet belongs to, its policy, and what holds it.
func (g *Guard) observe(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet) (*snapshot, error) {
	s := &snapshot{cluster: cluster, set: set, known: map[types.UID]bool{}}
	var err error
	if s.deployment, err = g.deployment(ctx, set); err != nil {
		return nil, err
	}
	var object client.Object = set
	if s.deployment != nil {
		object = s.deployment
	}
	if s.policy, err = g.PolicyFor(ctx, object); err != nil {
		return nil, err
	}
	owner, uid := OwnerOfSet(set), string(object.GetUID())
	if s.deployment != nil {
		owner = OwnerOfDeployment(s.deployment)
	}
	s.state = State{Owner: uid, Owners: map[string]Owner{uid: owner}}
	s.state.Blocked = cmp.Or(FrozenRefusal(owner, object.GetLabels(), object.GetAnnotations()), g.Unreachable(cluster))
	return s, nil
}

// Unreachable is why nothing of the Cluster may be made or replaced for want of an API server
// that answers, or of a claim on the workload cluster; nil if nothing is missing.
func (g *Guard) Unreachable(cluster *clusterv1.Cluster) *Refusal {
	initialized := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	state := g.Workload(client.ObjectKeyFromObject(cluster))
	return cmp.Or(managementUnreachable(g.Management()), workloadUnreachable(initialized, state), notClaimed(initialized, state))
}

// NotClaimed is why Machines that nobody asked to replace may not be deleted either: this
// management cluster may be a copy of the one that acts on the workload cluster.
func (g *Guard) NotClaimed(cluster *clusterv1.Cluster) *Refusal {
	initialized := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	return notClaimed(initialized, g.Workload(client.ObjectKeyFromObject(cluster)))
}

// deployment reads the MachineDeployment of a set; nil for a set that stands alone.
func (g *Guard) deployment(ctx context.Context, set *clusterv1.MachineSet) (*clusterv1.MachineDeployment, error) {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil || owner.Kind != "MachineDeployment" {
		return nil, nil //nolint:nilnil // a set need not have one
	}
	md := &clusterv1.MachineDeployment{}
	err := g.Reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, md)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // the set is about to follow it
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %q: %w", owner.Name, err)
	}
	return md, nil
}

// addOwner adds the Machines of the owner that asks.
func (g *Guard) addOwner(ctx context.Context, s *snapshot) error {
	sets := []*clusterv1.MachineSet{s.set}
	if s.deployment != nil {
		var err error
		if sets, err = index.MachineSetsOf(ctx, g.Reader, s.set.Namespace, s.deployment.UID); err != nil {
			return err
		}
	}
	for _, set := range sets {
		machines, err := index.MachinesOf(ctx, g.Reader, set.Namespace, set.UID)
		if err != nil {
			return err
		}
		g.addMachines(s, set.UID, s.state.Owner, machines)
	}
	return nil
}

// addCluster adds every Machine of the Cluster, and every owner.
func (g *Guard) addCluster(ctx context.Context, s *snapshot) error {
	key := client.ObjectKeyFromObject(s.cluster)
	deployments, err := index.MachineDeploymentsOfCluster(ctx, g.Reader, key)
	if err != nil {
		return err
	}
	for _, md := range deployments {
		s.state.Owners[string(md.UID)] = OwnerOfDeployment(md)
	}
	sets, err := index.MachineSetsOfCluster(ctx, g.Reader, key)
	if err != nil {
		return err
	}
	machines, err := index.MachinesOfCluster(ctx, g.Reader, key)
	if err != nil {
		return err
	}
	bySet := map[types.UID][]*clusterv1.Machine{}
	for _, m := range machines {
		bySet[controllerUID(m)] = append(bySet[controllerUID(m)], m)
	}
	for _, set := range sets {
		owner := string(controllerUID(set))
		if _, known := s.state.Owners[owner]; !known {
			owner = string(set.UID)
			s.state.Owners[owner] = OwnerOfSet(set)
		}
		known := s.state.Owners[owner]
		known.Vacancies += len(health.Empty(bySet[set.UID], health.Vacancies(set)))
		s.state.Owners[owner] = known
		g.addMachines(s, set.UID, owner, bySet[set.UID])
		delete(bySet, set.UID)
	}
	for owner, machines := range bySet {
		g.addMachines(s, owner, "", machines)
	}
	return nil
}

// addMachines adds the Machines of a set, and those that it was allowed and the cache does not show
// yet. Those that were chosen to be replaced count as if the cache showed that already.
func (g *Guard) addMachines(s *snapshot, set types.UID, owner string, machines []*clusterv1.Machine) {
	now := g.Clock.Now()
	for _, m := range machines {
		seen := observeMachine(m, owner)
		if g.reservations.hasReplacement(m.UID, now) {
			seen.Deleting, seen.Unhealthy, seen.Replaced = true, true, true
		}
		s.state.Machines = append(s.state.Machines, seen)
		if set == s.set.UID {
			s.known[m.UID] = true
		}
	}
	for range g.reservations.unseenCreations(set, machines, now) {
		s.state.Machines = append(s.state.Machines, Machine{Owner: owner})
	}
}

// CreationsObserved notes that the cache shows everything that was created for the MachineSet.
func (g *Guard) CreationsObserved(set types.UID) { g.reservations.dropCreations(set) }
