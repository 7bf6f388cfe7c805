// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/freeze"
	"drover.io/machine-controller/internal/safety/policy"
)

// snapshot collects the state that a Gate decides on.
type snapshot struct {
	cluster    *clusterv1.Cluster
	set        *clusterv1.MachineSet
	deployment *clusterv1.MachineDeployment
	settings   policy.Settings
	state      budget.State
	// known are the Machines of set.
	known map[types.UID]bool
}

// observe reads the owner that the MachineSet belongs to, its policy, and what blocks it.
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
	if s.settings, err = g.PolicyFor(ctx, object); err != nil {
		return nil, err
	}
	owner, uid := OwnerOfSet(set), string(object.GetUID())
	if s.deployment != nil {
		owner = OwnerOfDeployment(s.deployment)
	}
	s.state = budget.State{Owner: uid, Owners: map[string]budget.Owner{uid: owner}}
	s.state.Blocked = cmp.Or(freeze.Refusal(owner, object.GetLabels(), object.GetAnnotations()), g.Unreachable(cluster))
	return s, nil
}

// deployment reads the MachineDeployment of a set; nil for a set without one.
func (g *Guard) deployment(ctx context.Context, set *clusterv1.MachineSet) (*clusterv1.MachineDeployment, error) {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil || owner.Kind != "MachineDeployment" {
		return nil, nil //nolint:nilnil // a set need not have one
	}
	md := &clusterv1.MachineDeployment{}
	err := g.Reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, md)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // the set will be deleted, too
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %q: %w", owner.Name, err)
	}
	return md, nil
}

// addOwner adds the Machines of the owner of the set.
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
		key := string(controllerUID(set))
		if _, known := s.state.Owners[key]; !known {
			key = string(set.UID)
			s.state.Owners[key] = OwnerOfSet(set)
		}
		owner := s.state.Owners[key]
		owner.Unfilled += len(health.Unfilled(bySet[set.UID], health.InFlightReplacements(set)))
		s.state.Owners[key] = owner
		g.addMachines(s, set.UID, key, bySet[set.UID])
		delete(bySet, set.UID)
	}
	for owner, machines := range bySet {
		g.addMachines(s, owner, "", machines)
	}
	return nil
}

// addMachines adds the Machines of a set, and those that it was allowed and the cache does not show yet. Those that were
// chosen to be replaced count as if the cache showed that already.
func (g *Guard) addMachines(s *snapshot, set types.UID, owner string, machines []*clusterv1.Machine) {
	for _, m := range machines {
		observed := observeMachine(m, owner)
		if g.reserved().hasReplacement(m.UID) {
			observed.Deleting, observed.Unhealthy, observed.Replaced = true, true, true
		}
		s.state.Machines = append(s.state.Machines, observed)
		if set == s.set.UID {
			s.known[m.UID] = true
		}
	}
	for range g.reserved().unseenCreations(set, machines) {
		s.state.Machines = append(s.state.Machines, budget.Machine{Owner: owner})
	}
}
