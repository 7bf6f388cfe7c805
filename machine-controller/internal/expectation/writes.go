// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/runtime/expiring"
)

// writeTTL is how long a write is kept that is not compared with a cache: its object is gone.
const writeTTL = 10 * time.Minute

// finalized is the version after the last finalizer was removed: no cache can show a newer one.
const finalized = ""

// Writes keeps the resource version of the last write of this manager to each object. It detects a cache that does not show
// that write yet, and the event of that write. The zero value needs only a Clock.
type Writes struct {
	Clock clock.PassiveClock

	once     sync.Once
	versions expiring.Map[types.UID, observedWrite]
}

type observedWrite struct {
	version string
	// awaited is true once the cache was found to be older: its event must trigger a reconcile.
	awaited bool
}

// Note records the object's resource version as that of the last write.
func (w *Writes) Note(object client.Object) {
	w.entries().Set(object.GetUID(), observedWrite{version: object.GetResourceVersion()})
}

// Finalized records that the last write removed the last finalizer of an object that was being deleted: whatever a cache
// shows of it is older.
func (w *Writes) Finalized(object client.Object) {
	w.entries().Set(object.GetUID(), observedWrite{version: finalized})
}

func (w *Writes) entries() *expiring.Map[types.UID, observedWrite] {
	w.once.Do(func() { w.versions.Clock, w.versions.TTL = w.Clock, writeTTL })
	return &w.versions
}

// Behind reports whether the object, as read from a cache, is older than the last write to it. A write that the cache shows
// is dropped.
func (w *Writes) Behind(object client.Object) bool {
	if !w.entries().Has(object.GetUID()) {
		return false
	}
	behind := false
	w.entries().Update(object.GetUID(), func(last observedWrite, found bool) (observedWrite, bool) {
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.version)
		behind = found && (last.version == finalized || err == nil && order < 0)
		return observedWrite{version: last.version, awaited: true}, behind
	})
	return behind
}

// ExternalChanges passes every event except those of writes of this manager. A controller that derives everything in each reconcile
// needs none for these: a change by another client has an event of its own. The periodic resync passes, too.
func (w *Writes) ExternalChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || !w.isOwn(e.ObjectNew)
	}}
}

// isOwn reports whether the object is as the last write left it, and no reconcile waits for its event.
func (w *Writes) isOwn(object client.Object) bool {
	last, found := w.entries().Get(object.GetUID())
	return found && !last.awaited && last.version == object.GetResourceVersion()
}
