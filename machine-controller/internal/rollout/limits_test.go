// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestResolveLimits(t *testing.T) {
	t.Parallel()
	value := func(s string) *intstr.IntOrString { return new(intstr.Parse(s)) }
	for name, test := range map[string]struct {
		surge, unavailable *intstr.IntOrString
		replicas           int32
		want               Limits
		field              string
	}{
		"it has defaults":                         {replicas: 3, want: Limits{Surge: 1}},
		"it takes numbers":                        {surge: value("3"), unavailable: value("2"), replicas: 9, want: Limits{3, 2}},
		"it rounds surge up and unavailable down": {surge: value("25%"), unavailable: value("25%"), replicas: 10, want: Limits{3, 2}},
		"it never resolves to no movement at all": {surge: value("0"), unavailable: value("10%"), replicas: 5, want: Limits{0, 1}},
		"it has nothing to lose without replicas": {surge: value("0"), unavailable: value("0"), replicas: 0, want: Limits{}},
		"it loses no more than there is":          {unavailable: value("7"), replicas: 3, want: Limits{1, 3}},
		"it bounds what admission did not":        {surge: value("2147483647"), replicas: 82, want: Limits{Surge: maxSurge}},
		"it names an unreadable maxSurge":         {surge: value("many"), replicas: 3, field: "spec.rollout.strategy.rollingUpdate.maxSurge"},
		"it names an unreadable maxUnavailable":   {unavailable: value("5.5%"), replicas: 3, field: "spec.rollout.strategy.rollingUpdate.maxUnavailable"},
		"it names a negative maxUnavailable":      {unavailable: value("-1"), replicas: 3, field: "spec.rollout.strategy.rollingUpdate.maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strategy := clusterv1.MachineDeploymentRolloutStrategy{RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: test.surge, MaxUnavailable: test.unavailable}}
			got, err := ResolveLimits(strategy, test.replicas)
			if (err != nil) != (test.field != "") || err != nil && !strings.Contains(err.Error(), test.field) {
				t.Fatalf("error is %v, want one about %q", err, test.field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
