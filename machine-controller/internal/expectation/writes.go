// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writes remembers the resource version of our last write to each object, so that a cache that is older
// can be told from one that shows it. The zero value is ready to use.
type Writes struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

// Note remembers the object's resource version as that of our last write.
func (w *Writes) Note(object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.UID]string{}
	}
	w.versions[object.GetUID()] = object.GetResourceVersion()
}

// Behind reports whether the object, as read from a cache, is older than our last write to it. A write
// that is seen is forgotten.
func (w *Writes) Behind(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	version, ok := w.versions[object.GetUID()]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version); err == nil && order < 0 {
		return true
	}
	delete(w.versions, object.GetUID())
	return false
}

// Drop forgets an object that is gone.
func (w *Writes) Drop(object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, object.GetUID())
}
