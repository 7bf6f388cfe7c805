// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import "github.com/prometheus/client_golang/prometheus"

// Counter counts. All values are in the order of the labels.
type Counter struct {
	prometheus.Collector
	options Options
	vec     *prometheus.CounterVec
}

// NewCounter declares a counter.
func NewCounter(o Options) *Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: o.Name, Help: o.help()}, o.labelNames())
	declare(declaration{o, "counter", vec})
	return &Counter{vec, o, vec}
}

// Inc adds one.
func (c *Counter) Inc(values ...string) { c.vec.WithLabelValues(c.options.bounded(values)...).Inc() }

// Gauge has the last value that was set.
type Gauge struct {
	prometheus.Collector
	options Options
	vec     *prometheus.GaugeVec
}

// NewGauge declares a gauge.
func NewGauge(o Options) *Gauge {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: o.Name, Help: o.help()}, o.labelNames())
	declare(declaration{o, "gauge", vec})
	return &Gauge{vec, o, vec}
}

// Set sets the value.
func (g *Gauge) Set(value float64, values ...string) {
	g.vec.WithLabelValues(g.options.bounded(values)...).Set(value)
}

// Histogram counts values by size.
type Histogram struct {
	prometheus.Collector
	options Options
	vec     *prometheus.HistogramVec
}

// NewHistogram declares a histogram.
func NewHistogram(o Options) *Histogram {
	vec := newHistogramVec(o)
	declare(declaration{o, "histogram", vec})
	return &Histogram{vec, o, vec}
}

func newHistogramVec(o Options) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: o.Name, Help: o.help(), Buckets: o.Buckets}, o.labelNames())
}

// Observe counts a value.
func (h *Histogram) Observe(value float64, values ...string) {
	h.vec.WithLabelValues(h.options.bounded(values)...).Observe(value)
}

// Collected is a gauge that a collector makes anew at each scrape, so that no series outlives what it is about.
type Collected struct {
	options Options
	desc    *prometheus.Desc
}

// NewCollected declares a gauge that a collector sends.
func NewCollected(o Options) *Collected {
	declare(declaration{o, "gauge", nil})
	return &Collected{o, prometheus.NewDesc(o.Name, o.help(), o.labelNames(), nil)}
}

// Send sends a value.
func (c *Collected) Send(to chan<- prometheus.Metric, value float64, values ...string) {
	to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, c.options.bounded(values)...)
}

// Describe is for the collector.
func (c *Collected) Describe(to chan<- *prometheus.Desc) { to <- c.desc }
