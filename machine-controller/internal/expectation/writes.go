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
)

// writeTTL is how long a write is remembered that no cache was asked about: its object is gone.
const writeTTL = 10 * time.Minute

// finalized is the version of what our last write has ended: no cache can show anything newer.
const finalized = ""

// Writes remembers the resource version of our last write to each object, so that a cache that is older
// can be told from one that shows it, and the echo of a write from news. The zero value needs only a Clock.
type Writes struct {
	Clock clock.PassiveClock

	mu       sync.Mutex
	versions map[types.UID]observedWrite
	swept    time.Time
}

type observedWrite struct {
	version string
	at      time.Time
	// awaited: somebody found the cache behind, and counts on being woken by the write's echo.
	awaited bool
}

// Note remembers the object's resource version as that of our last write.
func (w *Writes) Note(object client.Object) { w.note(object, object.GetResourceVersion()) }

// Finalized remembers that our last write took the last finalizer of an object that was being deleted: whatever a
// cache shows of it from now on is old.
func (w *Writes) Finalized(object client.Object) { w.note(object, finalized) }

func (w *Writes) note(object client.Object, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	if w.versions == nil {
		w.versions = map[types.UID]observedWrite{}
	}
	w.versions[object.GetUID()] = observedWrite{version: version, at: now}
	if now.Sub(w.swept) < writeTTL {
		return
	}
	w.swept = now
	for uid, each := range w.versions {
		if now.Sub(each.at) >= writeTTL {
			delete(w.versions, uid)
		}
	}
}

// Behind reports whether the object, as read from a cache, is older than our last write to it. A write
// that is seen is forgotten.
func (w *Writes) Behind(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.versions[object.GetUID()]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.version)
	if last.version == finalized || err == nil && order < 0 {
		last.awaited = true
		w.versions[object.GetUID()] = last
		return true
	}
	delete(w.versions, object.GetUID())
	return false
}

// News passes every event but the echoes of our own writes. A controller that derives everything in each pass
// has nothing to learn from these: what others have changed meanwhile comes with an event of its own. The
// periodic reminder of what has not changed passes, too.
func (w *Writes) News() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || !w.echo(e.ObjectNew)
	}}
}

func (w *Writes) echo(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.versions[object.GetUID()]
	return ok && !last.awaited && last.version == object.GetResourceVersion()
}
