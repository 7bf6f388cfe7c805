// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/metric"
)

const metricPrefix = "machine_controller_workload_"

// reasons are those of failures.
var reasons = []string{
	string(ReasonKubeconfigMissing), string(ReasonKubeconfigUnreadable), string(ReasonKubeconfigInvalid), string(ReasonUnreachable),
	string(ReasonUnauthorized), string(ReasonForbidden), string(ReasonNodesTooLarge), string(ReasonTooManyNodeEvents),
}

var (
	connected = metric.NewCollected(metric.Options{
		Name: metricPrefix + "connected", Help: "1 if the Cluster's workload cluster is connected, else 0.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Named("namespace", "the Cluster's"), metric.Named("cluster", "the Cluster")},
	})
	cachedNodes = metric.NewCollected(metric.Options{
		Name: metricPrefix + "nodes", Help: "Nodes in the caches of all connected workload clusters.", Stability: metric.Alpha,
	})
	dials = metric.NewCounter(metric.Options{
		Name: metricPrefix + "dials_total", Help: "Attempts to connect to workload clusters, by result: Connected, Unchanged or the reason of the failure.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Fixed("result", append([]string{"Connected", "Unchanged"}, reasons...)...)},
	})
	dialSeconds = metric.NewHistogram(metric.Options{
		Name: metricPrefix + "dial_duration_seconds", Help: "Seconds from beginning to connect until all Nodes are cached, for attempts that succeed.", Stability: metric.Alpha,
		Buckets: []float64{0.01, 0.03, 0.09, 0.27, 0.81, 2.43, 7.29, 21.87, 65.61},
	})
	probes = metric.NewCounter(metric.Options{
		Name: metricPrefix + "probes_total", Help: "Probes of connected workload clusters, by result: Succeeded or the reason of the failure. Unreachable is a probe without answer.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Fixed("result", append([]string{"Succeeded"}, reasons...)...)},
	})
	nodeEvents = metric.NewCounter(metric.Options{
		Name: metricPrefix + "node_events_total", Help: "Changes of Nodes in workload clusters, by result: Announced to controllers, or Suppressed because no field that matters changed.", Stability: metric.Alpha,
		Labels: []metric.Label{metric.Fixed("result", "Announced", "Suppressed")},
	})
)

// metrics counts what connections do. Only one series exists per Cluster, and
// it goes with the Cluster, because it is made when metrics are collected.
type metrics struct{ connections *Connections }

// Describe is for Prometheus.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	connected.Describe(to)
	cachedNodes.Describe(to)
}

// Collect is for Prometheus.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	nodes := 0
	var clusters []*metav1.PartialObjectMetadata
	views := m.connections.views()
	for key, v := range views {
		clusters = append(clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		if v.connection != nil {
			nodes += v.connection.nodes.Len()
		}
	}
	bounded, _ := metric.Bounded(clusters)
	for _, cluster := range bounded {
		up := 0.0
		if views[client.ObjectKeyFromObject(cluster)].connection != nil {
			up = 1
		}
		connected.Send(to, up, cluster.Namespace, cluster.Name)
	}
	cachedNodes.Send(to, float64(nodes))
}

// dial counts what next answers.
func (m *metrics) dial(next func(context.Context, dialRequest) dialResult) func(context.Context, dialRequest) dialResult {
	return func(ctx context.Context, c dialRequest) dialResult {
		clock := m.connections.options.Clock
		began := clock.Now()
		a := next(ctx, c)
		switch {
		case a.failure != nil:
			dials.Inc(string(a.failure.reason))
		case a.connection != nil:
			dials.Inc("Connected")
			dialSeconds.Observe(clock.Since(began).Seconds())
		default:
			dials.Inc("Unchanged")
		}
		return a
	}
}

// countProbe counts what next finds.
func countProbe(next func(context.Context, *Connection) *failure) func(context.Context, *Connection) *failure {
	return func(ctx context.Context, c *Connection) *failure {
		f := next(ctx, c)
		result := "Succeeded"
		if f != nil {
			result = string(f.reason)
		}
		probes.Inc(result)
		return f
	}
}

func announced()  { nodeEvents.Inc("Announced") }
func suppressed() { nodeEvents.Inc("Suppressed") }
