// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	register = promauto.With(metrics.Registry)

	foundGauge = register.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drover_infra_orphan_instances",
		Help: "Instances and attached objects with Drover's tags found by the last sweep, by cloud and class.",
	}, []string{"cloud", "class"})
	sweepsTotal = register.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_infra_orphan_sweeps_total",
		Help: "Completed sweeps for orphans, by cloud.",
	}, []string{"cloud"})
	collectedTotal = register.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_infra_orphans_collected_total",
		Help: "Orphans deleted, by cloud.",
	}, []string{"cloud"})
)
