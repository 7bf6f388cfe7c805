// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes in points. A dashboard is 24 columns wide.
const (
	columnWidth  = 42
	rowHeight    = 28
	gap          = 4
	titleHeight  = 34
	legendHeight = 11
	legendLines  = 6
)

var (
	background = color.Gray{Y: 0xf4}
	border     = color.Gray{Y: 0xd8}
	ink        = color.Gray{Y: 0x24}
	faint      = color.Gray{Y: 0x70}
)

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

func style(size vg.Length, c color.Color) draw.TextStyle {
	f := plot.DefaultFont
	f.Size = size
	return draw.TextStyle{Color: c, Font: f, Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
}

// svg draws the dashboard with the content of each panel.
func (d *dashboard) svg(contents []content, minutes float64) ([]byte, error) {
	rows := 0
	for _, p := range d.Panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	width, height := vg.Length(24*columnWidth), vg.Length(rows*rowHeight+titleHeight)
	image := vgsvg.New(width, height)
	canvas := draw.New(image)
	canvas.FillPolygon(background, corners(canvas.Rectangle))
	canvas.FillText(style(16, ink), vg.Point{X: 2 * gap, Y: height - 2*gap}, d.Title)
	for i, p := range d.Panels {
		top := height - titleHeight - vg.Length(p.GridPos.Y*rowHeight)
		area := draw.Canvas{Canvas: canvas.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: vg.Length(p.GridPos.X*columnWidth) + gap, Y: top - vg.Length(p.GridPos.H*rowHeight) + gap},
			Max: vg.Point{X: vg.Length((p.GridPos.X+p.GridPos.W)*columnWidth) - gap, Y: top - gap},
		}}
		if err := p.draw(area, contents[i], minutes); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Title, err)
		}
	}
	var out bytes.Buffer
	_, err := image.WriteTo(&out)
	return out.Bytes(), err
}

func (p panel) draw(area draw.Canvas, what content, minutes float64) error {
	if p.Type == "row" {
		area.FillText(style(13, ink), vg.Point{X: area.Min.X + gap, Y: area.Max.Y}, p.Title)
		return nil
	}
	area.FillPolygon(color.White, corners(area.Rectangle))
	outline := corners(area.Rectangle)
	area.StrokeLines(draw.LineStyle{Color: border, Width: 0.5}, append(outline, outline[0]))
	area.FillText(style(11, ink), vg.Point{X: area.Min.X + 2*gap, Y: area.Max.Y - gap}, p.Title)
	inner := draw.Crop(area, 2*gap, -2*gap, 2*gap, -5*gap)
	switch p.Type {
	case "timeseries":
		return p.drawLines(inner, what.lines, minutes)
	case "stat":
		inner.FillText(style(30, ink), vg.Point{X: inner.Min.X, Y: inner.Max.Y - 2*gap}, what.value)
	case "table":
		drawTable(inner, what.table)
	default:
		return fmt.Errorf("panels of the type %q cannot be drawn", p.Type)
	}
	return nil
}

// drawLines draws the series, and a legend of the first of them.
func (p panel) drawLines(area draw.Canvas, lines []line, minutes float64) error {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return len(l.parts) == 0 })
	if len(lines) == 0 {
		area.FillText(style(11, faint), vg.Point{X: area.Min.X, Y: area.Max.Y - 2*gap}, "No data")
		return nil
	}
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
	colors, err := brewer.GetPalette(brewer.TypeQualitative, "Dark2", 8)
	if err != nil {
		return err
	}
	chart := newChart(minutes)
	highest := 0.0
	for _, l := range lines {
		for _, part := range l.parts {
			_, _, _, top := plotter.XYRange(part)
			highest = max(highest, top)
		}
	}
	by := scaleOf(p.FieldConfig.Defaults.Unit, highest)
	chart.Y.Tick.Marker = ticks(by.suffix)
	chart.Y.Max = highest / by.factor
	if highest == 0 {
		chart.Y.Max = 1
	}
	for i, l := range lines {
		for _, part := range l.parts {
			scaled := slices.Clone(part)
			for j := range scaled {
				scaled[j].Y /= by.factor
			}
			drawn, err := plotter.NewLine(scaled)
			if err != nil {
				return err
			}
			drawn.Color, drawn.Width = colors.Colors()[i%8], 1.2
			chart.Add(drawn)
		}
	}
	shown := min(len(lines), legendLines)
	chart.Draw(draw.Crop(area, 0, 0, vg.Length((shown+1)/2*legendHeight), 0))
	for i, l := range lines[:shown] {
		at := vg.Point{X: area.Min.X + area.Size().X/2*vg.Length(i%2), Y: area.Min.Y + vg.Length(((shown+1)/2-i/2)*legendHeight)}
		area.StrokeLine2(draw.LineStyle{Color: colors.Colors()[i%8], Width: 2}, at.X, at.Y-5, at.X+10, at.Y-5)
		name := l.name
		if i == legendLines-1 && len(lines) > legendLines {
			name += fmt.Sprintf(", and %d more", len(lines)-legendLines)
		}
		area.FillText(style(8, ink), vg.Point{X: at.X + 14, Y: at.Y}, name)
	}
	return nil
}

// newChart is an empty one with the look of all.
func newChart(minutes float64) *plot.Plot {
	chart := plot.New()
	chart.BackgroundColor = color.Transparent
	chart.X.Label.Text, chart.X.Label.TextStyle.Font.Size = "minutes", 8
	for _, axis := range []*plot.Axis{&chart.X, &chart.Y} {
		axis.Tick.Label.Font.Size, axis.Color, axis.Tick.Label.Color = 8, faint, faint
		axis.Tick.Color, axis.Label.TextStyle.Color = border, faint
	}
	chart.X.Min, chart.X.Max, chart.Y.Min = 0, minutes, 0
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, border
	grid.Horizontal.Width = 0.4
	chart.Add(grid)
	return chart
}

// drawTable draws as many rows as there is room for.
func drawTable(area draw.Canvas, table [][]string) {
	if len(table) == 0 {
		area.FillText(style(11, faint), vg.Point{X: area.Min.X, Y: area.Max.Y - 2*gap}, "No data")
		return
	}
	const lineHeight = 14
	room := int(area.Size().Y / lineHeight)
	for i, row := range table[:min(room, len(table))] {
		c := ink
		if i == 0 {
			c = faint
		}
		for j, cell := range row {
			at := vg.Point{X: area.Min.X + area.Size().X/vg.Length(len(row))*vg.Length(j), Y: area.Max.Y - vg.Length(i*lineHeight)}
			area.FillText(style(8.5, c), at, cell)
		}
	}
}

// ticks have a suffix.
type ticks string

// Ticks implements plot.Ticker.
func (t ticks) Ticks(lowest, highest float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(lowest, highest)
	for i, tick := range all {
		if tick.Label != "" {
			all[i].Label += string(t)
		}
	}
	return all
}

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}
