// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrictest reads metrics in tests.
package metrictest

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Samples are the values of a registry by metric and labels, as "name label=value label=value", where the labels are
// sorted. The value of a histogram is the sum of what was observed.
func Samples(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	return samples(t, registry, func(h *dto.Histogram) float64 { return h.GetSampleSum() })
}

// Counts are the samples with how often was observed as the value of a histogram.
func Counts(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	return samples(t, registry, func(h *dto.Histogram) float64 { return float64(h.GetSampleCount()) })
}

func samples(t testing.TB, registry prometheus.Gatherer, histogram func(*dto.Histogram) float64) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			all[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + histogram(metric.GetHistogram())
		}
	}
	return all
}

// Growth checks by how much samples have grown. Sums of seconds are compared up to their rounding.
func Growth(t testing.TB, before, after, want map[string]float64) {
	t.Helper()
	for sample, want := range want {
		if got := after[sample] - before[sample]; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s grew by %v, want %v", sample, got, want)
		}
	}
}

// Of is a registry with some collectors.
func Of(t testing.TB, collectors ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, each := range collectors {
		if err := registry.Register(each); err != nil {
			t.Fatal(err)
		}
	}
	return registry
}
