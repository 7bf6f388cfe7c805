// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reservationTTL is when the cache is certain to show what was done, or nothing was done.
const reservationTTL = time.Minute

// forgetFleetAfter is when a owner that nobody counted is forgotten: each is counted at least once in a sync period.
const overshootTTL = 2 * time.Hour

// reservations remembers what was allowed, and lets one decision about a Cluster be made at a
// time, so that two MachineSets never use the same room. The zero value is ready to use.
type reservations struct {
	mu           sync.Mutex
	clusters     map[client.ObjectKey]*clusterLock
	creations    map[types.UID]pendingCreation // by MachineSet
	replacements map[types.UID]time.Time       // by Machine
	overshoots   map[types.UID]overshoot       // by owner, of those that have too many Machines
}

// clusterLock is held by who decides about a Cluster, and kept while anybody holds it or waits for it.
type clusterLock struct {
	sync.Mutex
	waiting int
}

// overshoot is since when a owner has had too many Machines, and when that was last noted.
type overshoot struct{ since, recorded time.Time }

// pendingCreation is how many Machines a set was allowed, and which it had before.
type pendingCreation struct {
	n     int
	known map[types.UID]bool
	at    time.Time
}

// lock waits until nothing else is decided about the Cluster.
func (l *reservations) lock(cluster client.ObjectKey) (unlock func()) {
	l.mu.Lock()
	if l.clusters == nil {
		l.clusters = map[client.ObjectKey]*clusterLock{}
		l.creations, l.replacements = map[types.UID]pendingCreation{}, map[types.UID]time.Time{}
	}
	if l.clusters[cluster] == nil {
		l.clusters[cluster] = &clusterLock{}
	}
	t := l.clusters[cluster]
	t.waiting++
	l.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(l.clusters, cluster)
		}
	}
}

// reserveCreations notes how many Machines the set may create beside those that are known.
func (l *reservations) reserveCreations(set types.UID, n int, known map[types.UID]bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.creations, func(_ types.UID, b pendingCreation) bool { return at.Sub(b.at) > reservationTTL })
	if n > 0 {
		l.creations[set] = pendingCreation{n, known, at}
	}
}

// dropCreations drops what was noted for the set: the cache shows it.
func (l *reservations) dropCreations(set types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.creations, set)
}

// unseenCreations is how many Machines the set was allowed and are not among those shown.
func (l *reservations) unseenCreations(set types.UID, shown []*clusterv1.Machine, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, noted := l.creations[set]
	if !noted || now.Sub(b.at) > reservationTTL {
		return 0
	}
	left := b.n
	for _, m := range shown {
		if !b.known[m.UID] {
			left--
		}
	}
	return max(0, left)
}

// reserveReplacement notes that the Machine is about to be deleted.
func (l *reservations) reserveReplacement(machine types.UID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.replacements, func(_ types.UID, since time.Time) bool { return at.Sub(since) > reservationTTL })
	l.replacements[machine] = at
}

// hasReplacement reports whether the Machine was about to be deleted a moment ago.
func (l *reservations) hasReplacement(machine types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, noted := l.replacements[machine]
	return noted && now.Sub(since) <= reservationTTL
}

// cancelReplacement drops what was noted for the Machine: it is not being deleted after all.
func (l *reservations) cancelReplacement(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.replacements, machine)
}

// over is since when the owner has had too many Machines; zero if it has not.
func (l *reservations) overshootSince(owner types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overshoots[owner].since
}

// crowded notes since when the owner has had too many Machines; zero if it has not. Owners that nobody noted anything
// of for long are gone.
func (l *reservations) recordOvershoot(owner types.UID, since, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.overshoots, func(_ types.UID, c overshoot) bool { return now.Sub(c.recorded) > overshootTTL })
	if since.IsZero() {
		delete(l.overshoots, owner)
		return
	}
	if l.overshoots == nil {
		l.overshoots = map[types.UID]overshoot{}
	}
	l.overshoots[owner] = overshoot{since, now}
}
