// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package expectation keeps a controller from deciding on a cache that is older than its own last write: it records what was
// created and deleted until the cache shows it. The records are in memory only; after a restart the caller compares the
// cache with the API server once, see [Tracker.Verified]. The controllers of Machines and their owners use it.
package expectation

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/expiring"
)

// verifyAfter is how long a created object may be unseen until it is read from the API server: one that is
// deleted between two events is never seen.
const verifyAfter = 5 * time.Second

// ownerTTL is when an owner is dropped that is not used any more: it was deleted without being finalized. An existing owner
// is used at least once in a sync period, and one that is dropped by mistake only costs a read.
const ownerTTL = 2 * time.Hour

// Tracker records the unseen writes of every owner. The zero value needs only a Clock.
type Tracker struct {
	Clock clock.PassiveClock

	mu     sync.Mutex
	once   sync.Once
	owners expiring.Map[types.UID, *ownerWrites]
}

type ownerWrites struct {
	verified bool
	created  map[types.UID]write
	deleted  map[types.UID]bool
}

type write struct {
	key client.ObjectKey
	at  time.Time
}

// Created records that an object of the owner was created.
func (t *Tracker) Created(owner types.UID, object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).created[object.GetUID()] = write{client.ObjectKeyFromObject(object), t.Clock.Now()}
}

// Deleted records that the API server has accepted the deletion of an object of the owner.
func (t *Tracker) Deleted(owner types.UID, object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).deleted[object.GetUID()] = true
}

// Unseen compares the objects in the cache with what was written. It returns how many writes the cache does not show yet,
// and those created objects that have been unseen for so long that the caller should pass them to [Tracker.Resolve].
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

// Remove drops an object that does not exist.
func (t *Tracker) Remove(owner, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of(owner).created, object)
}

// Resolve reads the unverified objects of the owner, of one kind, from the API server, and drops those that do not exist
// or are no longer controlled by the owner. One that cannot be read stays unverified.
func (t *Tracker) Resolve(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, owner types.UID, unverified map[types.UID]client.ObjectKey) {
	for uid, key := range unverified {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(kind)
		err := live.Get(ctx, key, found)
		controller := metav1.GetControllerOfNoCopy(found)
		if apierrors.IsNotFound(err) || (err == nil && (found.UID != uid || controller == nil || controller.UID != owner)) {
			t.Remove(owner, uid)
		}
	}
}

// Verified reports whether this process has compared the owner's objects in the cache with the API server before. Until then
// the cache may be older than the last write of an earlier process.
func (t *Tracker) Verified(owner types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(owner).verified
}

// SetVerified records that the comparison found no difference.
func (t *Tracker) SetVerified(owner types.UID) { t.setVerified(owner, true) }

// Unverify reverts [Tracker.SetVerified]: the response to a write was lost, so the cache must be compared again.
func (t *Tracker) Unverify(owner types.UID) { t.setVerified(owner, false) }

func (t *Tracker) setVerified(owner types.UID, verified bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner).verified = verified
}

// Drop removes the records of an owner that is gone.
func (t *Tracker) Drop(owner types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners.Delete(owner)
}

// of returns the records of an owner, and keeps them for another ownerTTL. The caller holds the lock.
func (t *Tracker) of(owner types.UID) *ownerWrites {
	t.once.Do(func() { t.owners.Clock, t.owners.TTL = t.Clock, ownerTTL })
	var writes *ownerWrites
	t.owners.Update(owner, func(current *ownerWrites, found bool) (*ownerWrites, bool) {
		if writes = current; !found {
			writes = &ownerWrites{created: map[types.UID]write{}, deleted: map[types.UID]bool{}}
		}
		return writes, true
	})
	return writes
}
