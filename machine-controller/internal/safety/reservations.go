// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/expiring"
)

const (
	// reservationTTL is how long after a decision the cache is certain to show what was done, if anything was.
	reservationTTL = time.Minute
	// overshootTTL is when an owner is dropped that is not counted any more: each is counted at least once in a sync
	// period.
	overshootTTL = 2 * time.Hour
)

// reservations are the creations and replacements that were allowed and that the cache does not show yet, and since when
// owners have had too many Machines. One decision about a Cluster is made at a time, so that two MachineSets never use the
// same budget.
type reservations struct {
	mu       sync.Mutex
	clusters map[client.ObjectKey]*clusterLock
	// creations are by MachineSet, replacements by Machine, overshoots by owner.
	creations    expiring.Map[types.UID, creationReservation]
	replacements expiring.Map[types.UID, struct{}]
	overshoots   expiring.Map[types.UID, time.Time]
}

// clusterLock is locked during a decision about a Cluster, and kept while a decision uses it or waits for it.
type clusterLock struct {
	sync.Mutex
	users int
}

// creationReservation is how many Machines a set may create, beside those that it had before.
type creationReservation struct {
	n     int
	known map[types.UID]bool
}

func newReservations(clk clock.PassiveClock) *reservations {
	return &reservations{
		clusters:     map[client.ObjectKey]*clusterLock{},
		creations:    expiring.Map[types.UID, creationReservation]{Clock: clk, TTL: reservationTTL},
		replacements: expiring.Map[types.UID, struct{}]{Clock: clk, TTL: reservationTTL},
		overshoots:   expiring.Map[types.UID, time.Time]{Clock: clk, TTL: overshootTTL},
	}
}

// lock waits until no other decision about the Cluster is being made.
func (r *reservations) lock(cluster client.ObjectKey) (unlock func()) {
	r.mu.Lock()
	if r.clusters[cluster] == nil {
		r.clusters[cluster] = &clusterLock{}
	}
	l := r.clusters[cluster]
	l.users++
	r.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(r.clusters, cluster)
		}
	}
}

// reserveCreations records how many Machines the set may create beside the known ones.
func (r *reservations) reserveCreations(set types.UID, n int, known map[types.UID]bool) {
	if n > 0 {
		r.creations.Set(set, creationReservation{n, known})
	}
}

// dropCreations removes the reservation of the set: the cache shows what it has created.
func (r *reservations) dropCreations(set types.UID) { r.creations.Delete(set) }

// unseenCreations counts the Machines that the set may create and that are not among the observed ones.
func (r *reservations) unseenCreations(set types.UID, observed []*clusterv1.Machine) int {
	reserved, found := r.creations.Get(set)
	if !found {
		return 0
	}
	left := reserved.n
	for _, m := range observed {
		if !reserved.known[m.UID] {
			left--
		}
	}
	return max(0, left)
}

// reserveReplacement records that the Machine is about to be deleted.
func (r *reservations) reserveReplacement(machine types.UID) { r.replacements.Set(machine, struct{}{}) }

// cancelReplacement removes the reservation of the Machine: it is not being deleted.
func (r *reservations) cancelReplacement(machine types.UID) { r.replacements.Delete(machine) }

// hasReplacement reports whether the Machine was about to be deleted a moment ago.
func (r *reservations) hasReplacement(machine types.UID) bool { return r.replacements.Has(machine) }

// overshootSince is since when the owner has had too many Machines; zero if it has not.
func (r *reservations) overshootSince(owner types.UID) time.Time {
	since, _ := r.overshoots.Get(owner)
	return since
}

// recordOvershoot records since when the owner has had too many Machines; zero if it has not.
func (r *reservations) recordOvershoot(owner types.UID, since time.Time) {
	if since.IsZero() {
		r.overshoots.Delete(owner)
		return
	}
	r.overshoots.Set(owner, since)
}
