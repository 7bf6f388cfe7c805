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
)

// forgetAfter is how long a write is remembered that no cache was asked about: its object is gone.
const forgetAfter = 10 * time.Minute

// Writes remembers the resource version of our last write to each object, so that a cache that is older
// can be told from one that shows it. The zero value needs only a Clock.
type Writes struct {
	Clock clock.PassiveClock

	mu       sync.Mutex
	versions map[types.UID]noted
	swept    time.Time
}

type noted struct {
	version string
	at      time.Time
}

// Note remembers the object's resource version as that of our last write.
func (w *Writes) Note(object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	if w.versions == nil {
		w.versions = map[types.UID]noted{}
	}
	w.versions[object.GetUID()] = noted{object.GetResourceVersion(), now}
	if now.Sub(w.swept) < forgetAfter {
		return
	}
	w.swept = now
	for uid, each := range w.versions {
		if now.Sub(each.at) >= forgetAfter {
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
	if order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.version); err == nil && order < 0 {
		return true
	}
	delete(w.versions, object.GetUID())
	return false
}
