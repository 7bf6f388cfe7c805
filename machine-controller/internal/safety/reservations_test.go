// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestOvershootsExpire has owners with too many Machines that go without a last look.
func TestOvershootsExpire(t *testing.T) {
	t.Parallel()
	l, now := &reservations{}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	began := now
	for i := range 1000 {
		l.recordOvershoot(types.UID(fmt.Sprint(i)), began, now)
	}
	for range 3 {
		now = now.Add(overshootTTL - time.Minute)
		l.recordOvershoot("stays", began, now)
	}
	if len(l.overshoots) != 1 || !l.overshootSince("stays").Equal(began) {
		t.Errorf("%d owners are remembered, want 1; stays since %v, want %v", len(l.overshoots), l.overshootSince("stays"), began)
	}
}
