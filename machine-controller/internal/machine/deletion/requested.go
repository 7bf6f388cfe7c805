// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"drover.io/runtime/expiring"
)

// Requested records the deletions that the API server has accepted and that the cache may not show yet, so that an
// object is deleted once.
type Requested struct{ limiter *expiring.Limiter[types.UID] }

// NewRequested returns an empty record.
func NewRequested(c clock.PassiveClock) *Requested {
	return &Requested{&expiring.Limiter[types.UID]{Clock: c, Period: objectRetry}}
}

func (r *Requested) add(uid types.UID) { r.limiter.Mark(uid) }

// Apply sets the deletion timestamp of an object whose deletion was accepted a moment ago.
func (r *Requested) Apply(object *unstructured.Unstructured) {
	if object.GetDeletionTimestamp() == nil && r.limiter.Remaining(object.GetUID()) > 0 {
		object.SetDeletionTimestamp(new(metav1.NewTime(r.limiter.Clock.Now())))
	}
}
