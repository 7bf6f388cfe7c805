// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxGrowth is how much more a Machine of the largest scenario should cost than one of the smallest.
const maxGrowth = 1.2

// Growth writes what a Machine costs our core in scenarios of one cluster, from the smallest to the largest, as a table in
// Markdown; nothing for fewer than two sizes.
func Growth(out io.Writer, runs []Run) {
	sizes := sizesOf(runs)
	if len(sizes) < 2 {
		return
	}
	smallest, largest := sizes[0], sizes[len(sizes)-1]
	fmt.Fprintf(out, "| %s, by machines | %s | %s / %s | target |\n|---|%s---|---|\n",
		Ours, strings.Join(sizes, " | "), largest, smallest, strings.Repeat("---|", len(sizes)))
	for _, figure := range Figures() {
		if !figure.Steady {
			continue
		}
		median := map[string]float64{}
		cells := []string{figure.Name}
		for _, size := range sizes {
			all := values(figure, size, Ours, runs)
			median[size] = Median(all)
			cells = append(cells, number(median[size], len(all) > 0))
		}
		cells = append(cells, number(median[largest]/median[smallest], median[smallest] > 0), fmt.Sprintf("≤ %g", maxGrowth))
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

// sizesOf are our scenarios that are called after their number of machines alone, in ascending order.
func sizesOf(runs []Run) []string {
	machines := map[string]int{}
	for _, r := range runs {
		if r.Core == Ours && r.Scenario == strconv.Itoa(r.Machines) {
			machines[r.Scenario] = r.Machines
		}
	}
	names := make([]string, 0, len(machines))
	for name := range machines {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(machines[a], machines[b]) })
	return names
}
