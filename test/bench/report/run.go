// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package report turns what was measured into what people read: a table of ratios, JSON, plots and
// the figures of the documentation. It measures nothing.
package report

import (
	"cmp"
	"slices"
)

// The phases of a run.
const (
	Empty   = "empty"
	Create  = "create"
	Idle    = "idle"
	Restart = "restart"
	Roll    = "roll"
	Delete  = "delete"
)

// Run is the result of one run with one core.
type Run struct {
	Core     string  `json:"core"`
	Scenario string  `json:"scenario"`
	Machines int     `json:"machines"`
	Phases   []Phase `json:"phases"`
}

// Phase is what a phase cost the core, in total.
type Phase struct {
	Name string `json:"name"`
	// Wall is the time until all machines were as specified, in seconds.
	Wall float64 `json:"wallSeconds"`
	// CPU is the core's processor time and ServerCPU that of the management API server, in seconds.
	CPU       float64 `json:"cpuSeconds"`
	ServerCPU float64 `json:"serverCPUSeconds"`
	// RSS is the core's memory at the end and PeakRSS its most so far, in MiB.
	RSS     float64 `json:"rssMiB"`
	PeakRSS float64 `json:"peakRSSMiB"`
	// Writes to the management cluster are without Events; Others are those of other managers.
	Writes int `json:"writes"`
	Events int `json:"events"`
	Reads  int `json:"reads"`
	Others int `json:"othersWrites"`
	// Refused are requests among them that the server refused.
	Refused        int     `json:"refused"`
	WorkloadWrites int     `json:"workloadWrites"`
	WorkloadReads  int     `json:"workloadReads"`
	Reconciles     float64 `json:"reconciles"`
	// Calls are the core's requests by cluster, verb and resource.
	Calls map[string]int `json:"calls"`
}

// Figure is one thing that is compared.
type Figure struct {
	Name string
	// Of reads it from a run, per machine where that is meaningful; false if the run does not have it.
	Of func(Run) (float64, bool)
	// Ratio to upstream that is aimed at; zero for none.
	Ratio float64
	// Bound is what our own figure should not exceed, if Bounded.
	Bound   float64
	Bounded bool
	// Steady is true for what should not grow with the number of machines.
	Steady bool
}

// Phase returns a phase of the run.
func (r Run) Phase(name string) (Phase, bool) {
	at := slices.IndexFunc(r.Phases, func(p Phase) bool { return p.Name == name })
	if at < 0 {
		return Phase{}, false
	}
	return r.Phases[at], true
}

// Median is the middle of some numbers, or the mean of the two in the middle; zero for none.
func Median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Clone(numbers)
	slices.SortFunc(sorted, cmp.Compare[float64])
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
