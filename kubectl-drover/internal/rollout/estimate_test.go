// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	md := func(upToDate, available int32) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas = new(int32(10)), new(upToDate), new(available)
		return md
	}
	e := &Estimator{}
	for i, step := range []struct {
		md    *clusterv1.MachineDeployment
		after time.Duration
		want  string
	}{
		{md(2, 10), 0, ""},
		{md(2, 9), time.Minute, ""},
		{md(4, 10), 4 * time.Minute, "about 12m left at this pace"},
		{md(5, 3), 4 * time.Minute, "about 28m left at this pace"}, // what is not available is not done
		{md(1, 10), 5 * time.Minute, ""},                           // another rollout begins
		{md(2, 10), 6 * time.Minute, "about 8m left at this pace"},
		{md(10, 10), 9 * time.Minute, ""},
	} {
		if got := e.EstimateRemaining(step.md, at.Add(step.after)); got != step.want {
			t.Errorf("look %d: got %q, want %q", i, got, step.want)
		}
	}
}
