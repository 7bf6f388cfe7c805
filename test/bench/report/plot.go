// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// chart is one plot: a figure of every phase, side by side for each core.
type chart struct {
	file, title string
	of          func(Phase) float64
}

func charts() []chart {
	return []chart{
		{"writes.svg", "Management writes per Machine", func(p Phase) float64 { return float64(p.Writes) }},
		{"cpu.svg", "The core's processor time per Machine, ms", func(p Phase) float64 { return 1000 * p.CPU }},
		{"server-cpu.svg", "The API server's processor time per Machine, ms", func(p Phase) float64 { return 1000 * p.ServerCPU }},
		{"reconciles.svg", "Reconciles per Machine", func(p Phase) float64 { return p.Reconciles }},
	}
}

// plotted are the phases that a plot shows.
var plotted = []string{Create, Roll, Delete, Restart}

// Plot draws every chart of a scenario into a folder.
func Plot(folder, scenario string, runs []Run) error {
	for _, each := range charts() {
		if err := each.draw(filepath.Join(folder, each.file), scenario, runs); err != nil {
			return err
		}
	}
	return nil
}

func (c chart) draw(path, scenario string, runs []Run) error {
	const width = 18
	p := plot.New()
	p.Title.Text = c.title + ", " + scenario + " Machines"
	p.NominalX(plotted...)
	p.Y.Min = 0
	p.Legend.Top = true
	cores := coresOf(runs)
	for i, core := range cores {
		bars, err := plotter.NewBarChart(c.values(scenario, core, runs), vg.Points(width))
		if err != nil {
			return err
		}
		bars.LineStyle.Width = 0
		bars.Color = plotutil.Color(i)
		bars.Offset = vg.Points(width * (float64(i) - float64(len(cores)-1)/2))
		p.Add(bars)
		p.Legend.Add(core, bars)
	}
	return p.Save(14*vg.Centimeter, 8*vg.Centimeter, path)
}

// values are the medians of the chart's figure, phase by phase.
func (c chart) values(scenario, core string, runs []Run) plotter.Values {
	var all plotter.Values
	for _, name := range plotted {
		all = append(all, Median(values(Figure{Of: perMachine(name, c.of)}, scenario, core, runs)))
	}
	return all
}
