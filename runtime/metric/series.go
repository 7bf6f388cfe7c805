// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import "github.com/prometheus/client_golang/prometheus"

// Counter counts. All values are in the order of the labels.
type Counter struct {
	options Options
	vec     *prometheus.CounterVec
}

// NewCounter declares a counter.
func NewCounter(o Options) *Counter {
	c := &Counter{o, prometheus.NewCounterVec(prometheus.CounterOpts{Name: o.Name, Help: o.help()}, o.labelNames())}
	declare(declaration{o, "counter", c.vec})
	return c
}

// Inc adds one.
func (c *Counter) Inc(values ...string) { c.vec.WithLabelValues(c.options.bounded(values)...).Inc() }

// Describe implements prometheus.Collector.
func (c *Counter) Describe(to chan<- *prometheus.Desc) { c.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(to chan<- prometheus.Metric) { c.vec.Collect(to) }

// Gauge has the last value that was set.
type Gauge struct {
	options Options
	vec     *prometheus.GaugeVec
}

// NewGauge declares a gauge.
func NewGauge(o Options) *Gauge {
	g := &Gauge{o, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: o.Name, Help: o.help()}, o.labelNames())}
	declare(declaration{o, "gauge", g.vec})
	return g
}

// Set sets the value.
func (g *Gauge) Set(value float64, values ...string) {
	g.vec.WithLabelValues(g.options.bounded(values)...).Set(value)
}

// Describe implements prometheus.Collector.
func (g *Gauge) Describe(to chan<- *prometheus.Desc) { g.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (g *Gauge) Collect(to chan<- prometheus.Metric) { g.vec.Collect(to) }

// Histogram counts values by size.
type Histogram struct {
	options Options
	vec     *prometheus.HistogramVec
}

// NewHistogram declares a histogram.
func NewHistogram(o Options) *Histogram {
	h := &Histogram{o, newHistogramVec(o)}
	declare(declaration{o, "histogram", h.vec})
	return h
}

func newHistogramVec(o Options) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: o.Name, Help: o.help(), Buckets: o.Buckets}, o.labelNames())
}

// Observe counts a value.
func (h *Histogram) Observe(value float64, values ...string) {
	h.vec.WithLabelValues(h.options.bounded(values)...).Observe(value)
}

// Describe implements prometheus.Collector.
func (h *Histogram) Describe(to chan<- *prometheus.Desc) { h.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (h *Histogram) Collect(to chan<- prometheus.Metric) { h.vec.Collect(to) }

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
