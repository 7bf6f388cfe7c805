// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package managerlog

import (
	"fmt"
	"slices"
	"strings"
)

// names replaces the generated names of MachineSets and Machines.
type names struct {
	replacements []string
}

// newNames numbers MachineSets in the order of their first lines. All Machines of a MachineSet have one replacement.
func newNames(entries []Entry) names {
	sorted := slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int { return a.Time.Compare(b.Time) })
	var sets []string
	machines := map[string]bool{}
	for _, e := range sorted {
		if _, name, found := strings.Cut(e.Values["MachineSet"], "/"); found && !slices.Contains(sets, name) {
			sets = append(sets, name)
		}
		for _, kind := range machineKinds {
			value := e.Values[kind]
			if name := value[strings.LastIndex(value, "/")+1:]; name != "" {
				machines[name] = true
			}
		}
	}
	var n names
	for machine := range machines {
		for i, set := range sets {
			if strings.HasPrefix(machine, set+"-") {
				n.replacements = append(n.replacements, machine, fmt.Sprintf("MACHINE-OF-SET-%d", i+1))
			}
		}
	}
	// Names of Machines contain those of their MachineSets, so they are replaced first.
	for i, set := range sets {
		n.replacements = append(n.replacements, set, fmt.Sprintf("SET-%d", i+1))
	}
	return n
}

// replace returns text without generated names and other parts that differ between two runs.
func (n names) replace(text string) string {
	for i := 0; i < len(n.replacements); i += 2 {
		text = strings.ReplaceAll(text, n.replacements[i], n.replacements[i+1])
	}
	for _, each := range variable {
		text = each.pattern.ReplaceAllString(text, each.replacement)
	}
	return text
}
