// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import "drover.io/runtime/metric"

// cloud is the label with the name of the cloud.
var cloud = metric.Named("cloud", "the provider")

var (
	foundGauge = metric.NewGauge(metric.Options{
		Name: "drover_infra_orphan_instances", Help: "Instances and attached objects with Drover's tags found by the last sweep, by cloud and class.", Stability: metric.Stable,
		Labels: []metric.Label{cloud, metric.Fixed("class", classes...)},
	})
	sweepsTotal = metric.NewCounter(metric.Options{
		Name: "drover_infra_orphan_sweeps_total", Help: "Completed sweeps for orphans, by cloud.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud},
	})
	failedSweeps = metric.NewCounter(metric.Options{
		Name: "drover_infra_orphan_sweep_failures_total", Help: "Sweeps for orphans that broke off, did not list every account, or could not delete an orphan, by cloud.", Stability: metric.Alpha,
		Labels: []metric.Label{cloud},
	})
	collectedTotal = metric.NewCounter(metric.Options{
		Name: "drover_infra_orphans_collected_total", Help: "Orphans deleted, by cloud.", Stability: metric.Stable,
		Labels: []metric.Label{cloud},
	})
)
