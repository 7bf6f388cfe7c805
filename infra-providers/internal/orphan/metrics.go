// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	foundGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drover_infra_orphan_verdicts",
		Help: "Things with our tags found by the last sweep, by cloud and verdict.",
	}, []string{"cloud", "verdict"})
	collectedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_infra_orphans_collected_total",
		Help: "Orphans deleted, by cloud.",
	}, []string{"cloud"})
)

func init() { metrics.Registry.MustRegister(foundGauge, collectedTotal) }
