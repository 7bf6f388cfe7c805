// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/workload"
)

// LookAgain is when to ask again after a refusal: not every change that lifts one wakes
// whoever was refused.
const LookAgain = 10 * time.Second

// +kubebuilder:rbac:groups=policy.drover.io,resources=machinepolicies,verbs=get;list;watch

// Guard gathers what a Gate needs to know, asks it, and remembers what was allowed until the
// cache shows it. All fields are required.
type Guard struct {
	// Reader reads the manager's cache.
	Reader client.Reader
	// Workload tells how the connection to a workload cluster is doing.
	Workload func(cluster client.ObjectKey) workload.State
	// Management tells whether the management cluster can be reached.
	Management func() Reach
	// Default is the policy for what no MachinePolicy selects.
	Default Policy
	// Period is how long there must be too many Machines before a fleet is frozen.
	Period time.Duration
	Clock  clock.PassiveClock

	ledger ledger
}

// Create decides how many of the Machines that the MachineSet lacks may be made now. The
// caller must have seen in its cache everything that it has created for the set before.
func (g *Guard) Create(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, want int) (Decision, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.ledger.lock(key)()
	g.ledger.forget(set.UID)
	scene, err := g.scene(ctx, cluster, set)
	if err != nil {
		return Decision{}, err
	}
	if scene.policy.PendingPerCluster > 0 {
		err = g.addCluster(ctx, scene)
	} else {
		err = g.addFleet(ctx, scene)
	}
	if err != nil {
		return Decision{}, err
	}
	decision := Gate{scene.policy}.Create(scene.state, want)
	g.ledger.created(set.UID, decision.Allowed, scene.known, g.Clock.Now())
	return decision, nil
}

// Replace decides which of the unhealthy Machines of the MachineSet may be deleted now. The
// caller must delete those that are allowed, and only those; it must have seen in its cache
// everything that it has deleted of the set before, so that one whose deletion failed is
// asked about again.
func (g *Guard) Replace(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet, unhealthy []*clusterv1.Machine) (Choice, error) {
	key := client.ObjectKeyFromObject(cluster)
	defer g.ledger.lock(key)()
	names := make([]string, 0, len(unhealthy))
	uids := make(map[string]types.UID, len(unhealthy))
	for _, m := range unhealthy {
		names = append(names, m.Name)
		uids[m.Name] = m.UID
		g.ledger.spared(m.UID)
	}
	scene, err := g.scene(ctx, cluster, set)
	if err != nil {
		return Choice{}, err
	}
	if err := g.addCluster(ctx, scene); err != nil {
		return Choice{}, err
	}
	choice := Gate{scene.policy}.Replace(scene.state, names)
	for _, name := range choice.Allowed {
		g.ledger.replaced(uids[name], g.Clock.Now())
	}
	return choice, nil
}

// PolicyFor returns the policy for the Machines of a MachineDeployment, or of a MachineSet
// that stands alone; nil is a Machine that stands alone itself. Where no MachinePolicy has a
// budget for it, a MachineDeployment's spec.remediation.maxInFlight stands.
func (g *Guard) PolicyFor(ctx context.Context, fleet client.Object) (Policy, error) {
	if fleet == nil {
		return g.Default, nil
	}
	list := &policyv1.MachinePolicyList{}
	if err := g.Reader.List(ctx, list, client.InNamespace(fleet.GetNamespace())); err != nil {
		return Policy{}, fmt.Errorf("listing MachinePolicies: %w", err)
	}
	policy := g.Default
	if md, is := fleet.(*clusterv1.MachineDeployment); is && md.Spec.Remediation.MaxInFlight != nil {
		if limit, err := health.Limit(md.Spec.Remediation.MaxInFlight, replicas(md, md.Spec.Replicas)); err == nil {
			policy.PerFleet = Number(limit)
		}
	}
	if selecting := Selecting(list.Items, fleet.GetLabels()); len(selecting) > 0 {
		// A field that cannot be read, which the API server would have refused, stands at
		// its default.
		policy, _ = policy.Over(selecting[0])
	}
	return policy, nil
}

// scene is a State in the making.
type scene struct {
	cluster    *clusterv1.Cluster
	set        *clusterv1.MachineSet
	deployment *clusterv1.MachineDeployment
	policy     Policy
	state      State
	// known are the Machines of the set that asks.
	known map[types.UID]bool
}

// scene finds the fleet that the MachineSet belongs to, its policy, and what holds it.
func (g *Guard) scene(ctx context.Context, cluster *clusterv1.Cluster, set *clusterv1.MachineSet) (*scene, error) {
	s := &scene{cluster: cluster, set: set, known: map[types.UID]bool{}}
	var err error
	if s.deployment, err = g.deployment(ctx, set); err != nil {
		return nil, err
	}
	var owner client.Object = set
	if s.deployment != nil {
		owner = s.deployment
	}
	if s.policy, err = g.PolicyFor(ctx, owner); err != nil {
		return nil, err
	}
	fleet := FleetOfSet(set)
	if s.deployment != nil {
		fleet = FleetOf(s.deployment)
	}
	s.state = State{Fleet: string(owner.GetUID()), Fleets: map[string]Fleet{string(owner.GetUID()): fleet}}
	s.state.Hold = cmp.Or(FrozenRefusal(fleet, owner.GetLabels(), owner.GetAnnotations()), g.Unreachable(cluster))
	return s, nil
}

// Unreachable is why nothing of the Cluster may be made or replaced for want of an API server
// that answers; nil if both do.
func (g *Guard) Unreachable(cluster *clusterv1.Cluster) *Refusal {
	initialized := cluster.Status.Initialization.ControlPlaneInitialized
	return cmp.Or(
		managementSilent(g.Management()),
		workloadSilent(initialized != nil && *initialized, g.Workload(client.ObjectKeyFromObject(cluster))),
	)
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

// addFleet adds the Machines of the fleet that asks.
func (g *Guard) addFleet(ctx context.Context, s *scene) error {
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
		g.add(s, set.UID, s.state.Fleet, machines)
	}
	return nil
}

// addCluster adds every Machine of the Cluster, and every fleet.
func (g *Guard) addCluster(ctx context.Context, s *scene) error {
	key := client.ObjectKeyFromObject(s.cluster)
	deployments, err := index.MachineDeploymentsOfCluster(ctx, g.Reader, key)
	if err != nil {
		return err
	}
	for _, md := range deployments {
		s.state.Fleets[string(md.UID)] = FleetOf(md)
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
		fleet := string(controllerUID(set))
		if _, known := s.state.Fleets[fleet]; !known {
			fleet = string(set.UID)
			s.state.Fleets[fleet] = FleetOfSet(set)
		}
		known := s.state.Fleets[fleet]
		known.Vacant += len(health.Empty(bySet[set.UID], health.Vacancies(set)))
		s.state.Fleets[fleet] = known
		g.add(s, set.UID, fleet, bySet[set.UID])
		delete(bySet, set.UID)
	}
	for owner, machines := range bySet {
		g.add(s, owner, "", machines)
	}
	return nil
}

// add adds the Machines of a set, and those that it was allowed and the cache does not show
// yet. Those that were chosen to be replaced count as if the cache showed that already.
func (g *Guard) add(s *scene, set types.UID, fleet string, machines []*clusterv1.Machine) {
	now := g.Clock.Now()
	for _, m := range machines {
		seen := observeMachine(m, fleet)
		if g.ledger.isReplaced(m.UID, now) {
			seen.Deleting, seen.Unhealthy, seen.Replaced = true, true, true
		}
		s.state.Machines = append(s.state.Machines, seen)
		if set == s.set.UID {
			s.known[m.UID] = true
		}
	}
	for range g.ledger.unseen(set, machines, now) {
		s.state.Machines = append(s.state.Machines, Machine{Fleet: fleet})
	}
}

// Seen notes that the cache shows everything that was created for the MachineSet.
func (g *Guard) Seen(set types.UID) { g.ledger.forget(set) }
