// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Limits are maxSurge and maxUnavailable as numbers of Machines.
type Limits struct {
	Surge       int32
	Unavailable int32
}

// maxSurge is the most that a surge can be, as many as a MachineDeployment can have Machines: their sum stays a number.
const maxSurge = 10_000

// ResolveLimits turns the strategy's maxSurge (default 1) and maxUnavailable
// (default 0) into numbers. A percentage is of replicas; surge is rounded up,
// unavailable down. If both come out as 0 no rollout could ever move, so
// unavailable becomes 1. OnDelete has no limits. An error names the field.
func ResolveLimits(strategy clusterv1.MachineDeploymentRolloutStrategy, replicas int32) (Limits, error) {
	if strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return Limits{}, nil
	}
	const path = "spec.rollout.strategy.rollingUpdate."
	surge, err := scaled(strategy.RollingUpdate.MaxSurge, 1, replicas, true)
	if err != nil {
		return Limits{}, fmt.Errorf("reading %smaxSurge: %w", path, err)
	}
	unavailable, err := scaled(strategy.RollingUpdate.MaxUnavailable, 0, replicas, false)
	if err != nil {
		return Limits{}, fmt.Errorf("reading %smaxUnavailable: %w", path, err)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return Limits{Surge: min(surge, maxSurge), Unavailable: min(unavailable, replicas)}, nil
}

func scaled(value *intstr.IntOrString, fallback, replicas int32, up bool) (int32, error) {
	if value == nil {
		return fallback, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, int(replicas), up)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a number nor a percentage such as %q: %w", value.String(), "25%", err)
	}
	if n < 0 {
		return 0, fmt.Errorf("%q is negative; the least is 0", value.String())
	}
	return int32(n), nil
}
