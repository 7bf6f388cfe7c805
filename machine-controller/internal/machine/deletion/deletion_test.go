// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"drover.io/machine-controller/internal/metrics"
)

func TestStepsComeInOrder(t *testing.T) {
	t.Parallel()
	d := New(Options{Clock: testingclock.NewFakePassiveClock(epoch)})
	var names []string
	for _, each := range d.steps {
		names = append(names, metrics.Operation(each))
		if name := metrics.Operation(each); !metrics.IsKnownOperation(name) {
			t.Errorf("errors of %s are counted as other", name)
		}
	}
	want := []string{
		"deletion.hookStep", "deletion.drainStep", "deletion.detachStep", "deletion.hookStep",
		"deletion.instanceStep", "deletion.bootstrapStep", "deletion.nodeStep",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
