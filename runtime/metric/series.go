// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// maxStarted is up to how many series of fixed values a counter starts with.
const maxStarted = 100

// Counter counts. All values are in the order of the labels.
//
// Prometheus sees no increase in a series that begins with 1. So a counter whose labels have fixed values starts with all its
// series at 0, if these are 100 or fewer. One with labels that objects name starts them with [Counter.Start].
type Counter struct {
	prometheus.Collector
	options Options
	vec     *prometheus.CounterVec
}

// NewCounter declares a counter.
func NewCounter(o Options) *Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: o.Name, Help: o.help()}, o.labelNames())
	declare(declaration{o, "counter", vec})
	c := &Counter{vec, o, vec}
	if o.combinations() <= maxStarted && !slices.ContainsFunc(o.Labels, Label.isNamed) {
		c.Start()
	}
	return c
}

// Start begins the series of an object at 0, one for each of the fixed values of the other labels. The names are the values of
// the labels that objects name, in the order of the labels.
func (c *Counter) Start(names ...string) {
	all := [][]string{nil}
	for _, label := range c.options.Labels {
		values := label.Values
		if label.isNamed() {
			values, names = names[:1], names[1:]
		}
		var longer [][]string
		for _, one := range all {
			for _, value := range values {
				longer = append(longer, append(slices.Clone(one), value))
			}
		}
		all = longer
	}
	for _, values := range all {
		c.vec.WithLabelValues(values...)
	}
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
