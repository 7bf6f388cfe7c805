// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"drover.io/runtime/drainplan"
)

func TestPlanTriesTheRefusedLast(t *testing.T) {
	t.Parallel()
	p := drainplan.Make(drainplan.Classify([]*corev1.Pod{aPod("a"), aPod("b"), aPod("c")}, drainplan.Input{Now: noon}))
	tryLast(p, refusals{"uid-a": true})
	var names []string
	for _, d := range p.Evict {
		names = append(names, d.Pod.Name)
	}
	if diff := cmp.Diff([]string{"b", "c", "a"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
