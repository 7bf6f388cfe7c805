// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ours and Theirs are the cores whose ratio is taken.
const (
	Ours     = "drover"
	Upstream = "upstream"
)

// Table writes a scenario's figures as a table in Markdown: one column for each core, the median of
// the ratios of runs that followed each other, and the target.
func Table(out io.Writer, scenario string, runs []Run) {
	cores := coresOf(runs)
	fmt.Fprintf(out, "| %s machines | %s | ours / upstream | target |\n|---|%s---|---|\n", scenario, strings.Join(cores, " | "), strings.Repeat("---|", len(cores)))
	for _, figure := range Figures() {
		cells := []string{figure.Name}
		for _, core := range cores {
			cells = append(cells, number(Median(values(figure, scenario, core, runs)), len(values(figure, scenario, core, runs)) > 0))
		}
		ratio, ok := Compare(figure, scenario, runs)
		cells = append(cells, number(ratio, ok), figure.target())
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

// Compare is the median over all rounds of our figure divided by upstream's; false where upstream's is zero or unknown.
func Compare(figure Figure, scenario string, runs []Run) (float64, bool) {
	ours, upstream := values(figure, scenario, Ours, runs), values(figure, scenario, Upstream, runs)
	var ratios []float64
	for i := range min(len(ours), len(upstream)) {
		if upstream[i] > 0 {
			ratios = append(ratios, ours[i]/upstream[i])
		}
	}
	return Median(ratios), len(ratios) > 0
}

// values are a figure's values, one a round.
func values(figure Figure, scenario, core string, runs []Run) []float64 {
	var all []float64
	for _, r := range runs {
		if r.Core != core || r.Scenario != scenario {
			continue
		}
		if value, ok := figure.Of(r); ok {
			all = append(all, value)
		}
	}
	return all
}

func coresOf(runs []Run) []string {
	var cores []string
	for _, r := range runs {
		if !slices.Contains(cores, r.Core) {
			cores = append(cores, r.Core)
		}
	}
	return cores
}

// ScenariosOf lists the scenarios in the order of their first run.
func ScenariosOf(runs []Run) []string {
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Scenario) {
			names = append(names, r.Scenario)
		}
	}
	return names
}

func number(value float64, ok bool) string {
	switch {
	case !ok:
		return "–"
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

// Calls writes what the writes of a run were, most frequent first, per machine.
func Calls(out io.Writer, r Run) {
	for _, phase := range r.Phases {
		for _, call := range sorted(phase.Calls) {
			if n := phase.Calls[call]; float64(n)/float64(r.Machines) >= 0.005 {
				fmt.Fprintf(out, "%s\t%s\t%.2f\n", phase.Name, call, float64(n)/float64(r.Machines))
			}
		}
	}
}

func sorted(calls map[string]int) []string {
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if calls[a] != calls[b] {
			return calls[b] - calls[a]
		}
		return strings.Compare(a, b)
	})
	return names
}
