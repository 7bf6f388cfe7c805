// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

func TestRequestedAppliesToARequestedObjectForAWhile(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(epoch)
	requested := NewRequested(clock)
	m := deleting().Machine
	apply := func() *metav1.Time {
		o := object(m)
		requested.Apply(o)
		return o.GetDeletionTimestamp()
	}
	if at := apply(); at != nil {
		t.Errorf("an object whose deletion was not requested is deleted at %s", at)
	}
	requested.add("x-uid")
	if at := apply(); at == nil || !at.Time.Equal(epoch) {
		t.Errorf("a requested object is deleted at %v", at)
	}
	clock.SetTime(epoch.Add(objectRetry))
	if at := apply(); at != nil {
		t.Errorf("an object that still exists after %s is deleted at %s", objectRetry, at)
	}
}

func TestRequestedKeepsTheTimestampOfTheCache(t *testing.T) {
	t.Parallel()
	requested := NewRequested(testingclock.NewFakePassiveClock(epoch))
	requested.add("x-uid")
	o := object(deleting().Machine)
	before := metav1.NewTime(epoch.Add(-time.Hour))
	o.SetDeletionTimestamp(&before)
	if requested.Apply(o); !o.GetDeletionTimestamp().Time.Equal(before.Time) {
		t.Errorf("deleted at %s", o.GetDeletionTimestamp())
	}
}
