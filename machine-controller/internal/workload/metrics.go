// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what connections do. Only one series exists per Cluster, and
// it goes with the Cluster, because it is made when metrics are collected.
type metrics struct {
	connections *Connections
	connected   *prometheus.Desc
	nodes       *prometheus.Desc
	dials       *prometheus.CounterVec
	dialSeconds prometheus.Histogram
	probes      *prometheus.CounterVec
	nodeEvents  *prometheus.CounterVec
}

const metricPrefix = "machine_controller_workload_"

func newMetrics(connections *Connections) *metrics {
	return &metrics{
		connections: connections,
		connected: prometheus.NewDesc(metricPrefix+"connected",
			"1 if the Cluster's workload cluster is connected, else 0.", []string{"namespace", "cluster"}, nil),
		nodes: prometheus.NewDesc(metricPrefix+"nodes",
			"Nodes in the caches of all connected workload clusters.", nil, nil),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "dials_total",
			Help: "Attempts to connect to workload clusters, by result: Connected, Unchanged or the reason of the failure.",
		}, []string{"result"}),
		dialSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    metricPrefix + "dial_duration_seconds",
			Help:    "Time from beginning to connect until all Nodes are cached, for attempts that succeed.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "probes_total",
			Help: "Probes of connected workload clusters, by result: Succeeded or the reason of the failure.",
		}, []string{"result"}),
		nodeEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "node_events_total",
			Help: "Changes of Nodes in workload clusters, by result: Announced to controllers, or Suppressed because no field that matters changed.",
		}, []string{"result"}),
	}
}

// Describe is for Prometheus.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.connected
	to <- m.nodes
	m.dials.Describe(to)
	m.dialSeconds.Describe(to)
	m.probes.Describe(to)
	m.nodeEvents.Describe(to)
}

// Collect is for Prometheus.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	nodes := 0
	for cluster, v := range m.connections.views() {
		up := 0.0
		if v.connection != nil {
			up = 1
			nodes += v.connection.nodes.Len()
		}
		to <- prometheus.MustNewConstMetric(m.connected, prometheus.GaugeValue, up, cluster.Namespace, cluster.Name)
	}
	to <- prometheus.MustNewConstMetric(m.nodes, prometheus.GaugeValue, float64(nodes))
	m.dials.Collect(to)
	m.dialSeconds.Collect(to)
	m.probes.Collect(to)
	m.nodeEvents.Collect(to)
}

// dial counts what next answers.
func (m *metrics) dial(next func(context.Context, dialRequest) dialResult) func(context.Context, dialRequest) dialResult {
	return func(ctx context.Context, c dialRequest) dialResult {
		clock := m.connections.options.Clock
		began := clock.Now()
		a := next(ctx, c)
		switch {
		case a.failure != nil:
			m.dials.WithLabelValues(string(a.failure.reason)).Inc()
		case a.connection != nil:
			m.dials.WithLabelValues("Connected").Inc()
			m.dialSeconds.Observe(clock.Since(began).Seconds())
		default:
			m.dials.WithLabelValues("Unchanged").Inc()
		}
		return a
	}
}

// probe counts what next finds.
func (m *metrics) probe(next func(context.Context, *Connection) *failure) func(context.Context, *Connection) *failure {
	return func(ctx context.Context, c *Connection) *failure {
		f := next(ctx, c)
		result := "Succeeded"
		if f != nil {
			result = string(f.reason)
		}
		m.probes.WithLabelValues(result).Inc()
		return f
	}
}

func (m *metrics) announced()  { m.nodeEvents.WithLabelValues("Announced").Inc() }
func (m *metrics) suppressed() { m.nodeEvents.WithLabelValues("Suppressed").Inc() }
