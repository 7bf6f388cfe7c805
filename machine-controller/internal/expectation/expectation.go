// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package expectation keeps a controller from deciding on a cache that is older than its
// own last write: it remembers what was created and deleted until the cache shows it. It
// holds nothing but memory; after a restart the caller looks at the API server itself once,
// which [Tracker.Known] reminds it of. The machineset controller uses it.
package expectation

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// verifyAfter is how long a write may stay unseen before it is worth asking the API server
// whether the object still exists: one that came and went between two events is never seen.
const verifyAfter = 5 * time.Second

// ownerTTL is when an owner that nobody asked about is forgotten: it is gone without having been finalized. An
// owner that is there is asked about at least once in a sync period, and one that is forgotten by mistake only costs
// a read.
const ownerTTL = 2 * time.Hour

// Tracker remembers the unseen writes of every owner. The zero value needs only a Clock.
type Tracker struct {
	Clock clock.PassiveClock

	mu     sync.Mutex
	owners map[types.UID]*ownerWrites
	swept  time.Time
}

type ownerWrites struct {
	verified bool
	created  map[types.UID]write
	deleted  map[types.UID]write
	// lastUsed is when it was last needed.
	lastUsed time.Time
}

type write struct {
	key client.ObjectKey
	at  time.Time
}

// Created notes that an object of the owner was created.
func (t *Tracker) Created(owner types.UID, object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).created[object.GetUID()] = write{client.ObjectKeyFromObject(object), t.Clock.Now()}
}

// Deleted notes that the API server has accepted the deletion of an object of the owner.
func (t *Tracker) Deleted(owner types.UID, object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).deleted[object.GetUID()] = write{client.ObjectKeyFromObject(object), t.Clock.Now()}
}

// Unseen compares what the cache shows with what was written. It returns how many writes
// the cache does not show yet, and those objects among the created that have been unseen
// for so long that the caller should ask the API server about them and, if they do not
// exist, [Tracker.Forget] them.
func Unseen[T client.Object](t *Tracker, owner types.UID, shown []T) (count int, unverified map[types.UID]client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.of(owner)
	visible := make(map[types.UID]bool, len(shown))
	for _, object := range shown {
		visible[object.GetUID()] = object.GetDeletionTimestamp() == nil
		delete(m.created, object.GetUID())
	}
	for uid := range m.deleted {
		if !visible[uid] {
			delete(m.deleted, uid)
		}
	}
	for uid, w := range m.created {
		if t.Clock.Since(w.at) > verifyAfter {
			if unverified == nil {
				unverified = map[types.UID]client.ObjectKey{}
			}
			unverified[uid] = w.key
		}
	}
	return len(m.created) + len(m.deleted), unverified
}

// Forget drops an object that turned out not to exist.
func (t *Tracker) Forget(owner, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of(owner).created, object)
}

// Verified reports whether this process has compared the owner's objects in the cache with the
// API server before. Until then the cache may be older than the last write of the process
// that was here before.
func (t *Tracker) Verified(owner types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(owner).verified
}

// SetVerified notes that the comparison was made and found no difference.
func (t *Tracker) SetVerified(owner types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).verified = true
}

// Unverify takes back [Tracker.Know]: the answer to a write was lost, so the caller has to look
// at the API server itself again.
func (t *Tracker) Unverify(owner types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).verified = false
}

// Drop forgets an owner that is gone.
func (t *Tracker) Drop(owner types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owners, owner)
}

// of returns the memory of an owner. The caller holds the lock.
func (t *Tracker) of(owner types.UID) *ownerWrites {
	now := t.Clock.Now()
	if t.owners == nil {
		t.owners = map[types.UID]*ownerWrites{}
	}
	if now.Sub(t.swept) > ownerTTL {
		t.swept = now
		maps.DeleteFunc(t.owners, func(_ types.UID, m *ownerWrites) bool { return now.Sub(m.lastUsed) > ownerTTL })
	}
	if t.owners[owner] == nil {
		t.owners[owner] = &ownerWrites{created: map[types.UID]write{}, deleted: map[types.UID]write{}}
	}
	t.owners[owner].lastUsed = now
	return t.owners[owner]
}
