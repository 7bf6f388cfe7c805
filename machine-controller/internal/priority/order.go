// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package priority orders the Machines of a MachineSet by which to delete first when the set is scaled down. It is pure: it
// neither counts how many to delete nor deletes any. The machineset controller takes as many as it needs from the front;
// package rollout relies on the annotated and the unavailable Machines being there.
package priority

import (
	"cmp"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Rank is the priority of deleting a Machine; the lowest is deleted first.
type Rank int

const (
	// Deleting Machines are being deleted already and count first.
	Deleting Rank = iota
	// Annotated Machines have cluster.x-k8s.io/delete-machine, which users and the
	// cluster autoscaler set on the Machines that they want deleted.
	Annotated
	// Unjoined Machines have no Node yet.
	Unjoined
	// Unhealthy Machines failed a health check, are to be remediated, or have
	// an unhealthy Node.
	Unhealthy
	// Unavailable Machines are not, or not for long enough, ready.
	Unavailable
	// Available Machines are deleted last.
	Available
)

// RankOf returns the rank of m.
func RankOf(m *clusterv1.Machine) Rank {
	is := func(condition string) bool { return meta.IsStatusConditionTrue(m.Status.Conditions, condition) }
	fails := func(condition string) bool { return meta.IsStatusConditionFalse(m.Status.Conditions, condition) }
	has := func(annotation string) bool { _, ok := m.Annotations[annotation]; return ok }
	switch {
	case !m.DeletionTimestamp.IsZero():
		return Deleting
	case has(clusterv1.DeleteMachineAnnotation):
		return Annotated
	case !m.Status.NodeRef.IsDefined():
		return Unjoined
	case fails(clusterv1.MachineHealthCheckSucceededCondition), fails(clusterv1.MachineNodeHealthyCondition), has(clusterv1.RemediateMachineAnnotation):
		return Unhealthy
	case !is(clusterv1.MachineAvailableCondition):
		return Unavailable
	default:
		return Available
	}
}

// rankUnder is the rank of m under a policy. Where age decides, it decides among all that are not unhealthy, as in
// Cluster API: a Machine that is merely not available for long enough is no exception.
func rankUnder(policy clusterv1.MachineSetDeletionOrder, m *clusterv1.Machine) Rank {
	rank := RankOf(m)
	if policy != clusterv1.OldestMachineSetDeletionOrder && policy != clusterv1.NewestMachineSetDeletionOrder {
		return rank
	}
	switch rank {
	case Unjoined:
		return Unhealthy
	case Unavailable:
		return Available
	case Deleting, Annotated, Unhealthy, Available:
	}
	return rank
}

// Order returns the Machines in the order in which they should be deleted. It does not change the argument. Newest and Oldest
// have fewer ranks, see rankUnder. Within a rank, Newest and Oldest are by creation time; Random, which is also the default,
// is by a hash of the Machine's UID and seed, and so are ties. One seed always gives one order, so a deletion that is retried
// selects the same Machines: use another seed for each scale-down.
func Order(machines []*clusterv1.Machine, policy clusterv1.MachineSetDeletionOrder, seed string) []*clusterv1.Machine {
	candidates := make([]candidate, len(machines))
	for i, m := range machines {
		candidates[i] = candidate{m, rankUnder(policy, m), shuffle(m.UID, seed)}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.rank, b.rank),
			byAge(a.machine, b.machine, policy),
			cmp.Compare(a.shuffled, b.shuffled),
			cmp.Compare(a.machine.Name, b.machine.Name),
		)
	})
	ordered := make([]*clusterv1.Machine, len(candidates))
	for i, p := range candidates {
		ordered[i] = p.machine
	}
	return ordered
}

// candidate is a Machine with what it is ordered by, computed once.
type candidate struct {
	machine  *clusterv1.Machine
	rank     Rank
	shuffled uint64
}

func byAge(a, b *clusterv1.Machine, policy clusterv1.MachineSetDeletionOrder) int {
	age := a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	switch policy {
	case clusterv1.OldestMachineSetDeletionOrder:
		return age
	case clusterv1.NewestMachineSetDeletionOrder:
		return -age
	default:
		return 0
	}
}

func shuffle(uid types.UID, seed string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed + "/" + string(uid)))
	// FNV hardly mixes its last byte upwards, and UIDs may differ only there.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
