// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drover.io/test/bench/report"
)

// scenario is a set of machines to measure a core with.
type scenario struct {
	name string
	// clusters is how many clusters there are, and machines how many each has.
	clusters, machines int
	// full runs our bootstrap and simulated hosts beside the core, which otherwise is alone with a stand-in.
	full bool
	// flap makes the Nodes of every tenth machine go NotReady and come back while idle.
	flap bool
	// idle is the idle time.
	idle time.Duration
	// until is the last phase.
	until string
}

// scenarios are the choices: a small, a common and a large number of machines, many small clusters, and unhealthy machines.
func scenarios() []scenario {
	return []scenario{
		{name: "100", clusters: 1, machines: 100},
		{name: "200", clusters: 1, machines: 200},
		{name: "1000", clusters: 1, machines: 1000},
		{name: "5000", clusters: 1, machines: 5000},
		{name: "200x5", clusters: 200, machines: 5},
		{name: "1000-flap", clusters: 1, machines: 1000, flap: true},
		{name: "200-full", clusters: 1, machines: 200, full: true},
	}
}

func find(names []string, idle time.Duration, until string) ([]scenario, error) {
	if ends := []string{report.Create, report.Idle, report.Restart, report.Roll, report.Delete}; !slices.Contains(ends, until) {
		return nil, fmt.Errorf("--until: %q is none of %s", until, strings.Join(ends, ", "))
	}
	var chosen []scenario
	for _, name := range names {
		at := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("--scenarios: there is no %q", name)
		}
		one := scenarios()[at]
		one.idle, one.until = idle, until
		chosen = append(chosen, one)
	}
	return chosen, nil
}

func (s scenario) total() int { return s.clusters * s.machines }

func (s scenario) clusterNames() []string {
	var names []string
	for i := range s.clusters {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	return names
}
