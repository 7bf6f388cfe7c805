// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import "fmt"

// Figures are what is compared, in the order of the table. Bounds and ratios are the project's targets.
func Figures() []Figure {
	all := []Figure{}
	for _, each := range []struct {
		phase string
		bound float64
	}{{Create, 5}, {Roll, 10}, {Delete, 4}, {Restart, 0}} {
		all = append(all, Figure{
			Name: "management writes per Machine, " + each.phase, Bound: each.bound, Bounded: true, Steady: each.phase != Restart,
			Of: perMachine(each.phase, func(p Phase) float64 { return float64(p.Writes) }),
		})
	}
	for _, each := range []struct {
		phase string
		ratio float64
	}{{Create, 1. / 5}, {Roll, 1. / 8}, {Delete, 1. / 4}, {Restart, 0}} {
		all = append(all, Figure{
			Name: "CPU ms per Machine, " + each.phase, Ratio: each.ratio, Steady: each.phase != Restart,
			Of: perMachine(each.phase, func(p Phase) float64 { return 1000 * p.CPU }),
		})
	}
	all = append(all,
		Figure{Name: "API server's CPU ms per Machine, create", Ratio: 1. / 3, Of: perMachine(Create, func(p Phase) float64 { return 1000 * p.ServerCPU })},
		Figure{Name: "seconds until all run", Ratio: 1. / 3, Of: whole(Create, func(p Phase) float64 { return p.Wall })},
		Figure{Name: "peak memory of create, MiB", Ratio: 1. / 2, Of: whole(Create, func(p Phase) float64 { return p.PeakRSS })},
		Figure{Name: "memory per Machine when idle, KiB", Bound: 40, Bounded: true, Of: memory},
		Figure{Name: "management writes when idle", Bounded: true, Of: whole(Idle, func(p Phase) float64 { return float64(p.Writes) })},
		Figure{Name: "CPU when idle, % of a core", Bound: 1, Bounded: true, Of: whole(Idle, func(p Phase) float64 { return 100 * p.CPU / p.Wall })},
	)
	for _, name := range []string{Create, Roll, Delete} {
		all = append(all, Figure{Name: "reconciles per Machine, " + name, Of: perMachine(name, func(p Phase) float64 { return p.Reconciles })})
	}
	for _, name := range []string{Create, Roll, Delete} {
		all = append(all, Figure{Name: "workload writes per Machine, " + name, Of: perMachine(name, func(p Phase) float64 { return float64(p.WorkloadWrites) })})
	}
	for _, name := range []string{Create, Roll, Delete} {
		all = append(all, Figure{Name: "Events per Machine, " + name, Of: perMachine(name, func(p Phase) float64 { return float64(p.Events) })})
	}
	for _, name := range []string{Roll, Delete} {
		all = append(all, Figure{Name: "seconds to " + name, Of: whole(name, func(p Phase) float64 { return p.Wall })})
	}
	return all
}

func whole(name string, of func(Phase) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) {
		phase, ok := r.Phase(name)
		if !ok {
			return 0, false
		}
		return of(phase), true
	}
}

func perMachine(name string, of func(Phase) float64) func(Run) (float64, bool) {
	return func(r Run) (float64, bool) {
		total, ok := whole(name, of)(r)
		return total / float64(r.Machines), ok
	}
}

// memory is what the machines added to what the core held without any, in KiB each.
func memory(r Run) (float64, bool) {
	empty, known := r.Phase(Empty)
	idle, ok := r.Phase(Idle)
	return (idle.RSS - empty.RSS) * 1024 / float64(r.Machines), ok && known
}

// target is the text of a target.
func (f Figure) target() string {
	switch {
	case f.Bounded:
		return fmt.Sprintf("≤ %g", f.Bound)
	case f.Ratio > 0:
		return fmt.Sprintf("≤ 1/%g", 1/f.Ratio)
	}
	return ""
}
