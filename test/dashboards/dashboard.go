// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"gonum.org/v1/plot/plotter"
)

// dashboard is what is drawn of a dashboard of Grafana.
type dashboard struct {
	UID, Title string
	Panels     []panel
}

type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

type target struct{ Expr, LegendFormat string }

// content is what the queries of a panel answer.
type content struct {
	lines []line
	// value is that of a panel of the type stat.
	value string
	// table has the labels in its first row.
	table [][]string
}

// line is one series: its points without a gap between them. Points have the minutes since the beginning.
type line struct {
	name  string
	parts []plotter.XYs
}

// querier is the part of Prometheus that dashboards use.
type querier interface {
	Query(ctx context.Context, query string, at time.Time, options ...promv1.Option) (model.Value, promv1.Warnings, error)
	QueryRange(ctx context.Context, query string, r promv1.Range, options ...promv1.Option) (model.Value, promv1.Warnings, error)
}

// rateInterval replaces Grafana's $__rate_interval: Prometheus scrapes once per second.
const rateInterval = "20s"

var (
	variable = regexp.MustCompile(`\$\{?[a-z]+\}?`)
	label    = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

func readDashboard(path string) (*dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// query is the expression with all values of the variables selected.
func (t target) query() string {
	return variable.ReplaceAllString(strings.ReplaceAll(t.Expr, "$__rate_interval", rateInterval), ".*")
}

// evaluate asks for what the panel shows of a time range.
func (p panel) evaluate(ctx context.Context, source querier, r promv1.Range) (content, error) {
	var all content
	for _, t := range p.Targets {
		if p.Type == "timeseries" {
			answer, _, err := source.QueryRange(ctx, t.query(), r)
			if err != nil {
				return content{}, fmt.Errorf("%s: %w", p.Title, err)
			}
			matrix, ok := answer.(model.Matrix)
			if !ok {
				return content{}, fmt.Errorf("%s: the answer is a %s", p.Title, answer.Type())
			}
			for _, stream := range matrix {
				all.lines = append(all.lines, line{legend(t.LegendFormat, stream.Metric), parts(stream.Values, r)})
			}
			continue
		}
		answer, _, err := source.Query(ctx, t.query(), r.End)
		if err != nil {
			return content{}, fmt.Errorf("%s: %w", p.Title, err)
		}
		vector, ok := answer.(model.Vector)
		if !ok {
			return content{}, fmt.Errorf("%s: the answer is a %s", p.Title, answer.Type())
		}
		if p.Type == "stat" {
			all.value = "No data"
			if len(vector) > 0 {
				all.value = formatUnit(p.FieldConfig.Defaults.Unit, float64(vector[0].Value))
			}
			continue
		}
		all.table = append(all.table, rows(vector)...)
	}
	return all, nil
}

// legend is the name of a series as Grafana writes it.
func legend(format string, labels model.Metric) string {
	return label.ReplaceAllStringFunc(format, func(text string) string {
		return string(labels[model.LabelName(label.FindStringSubmatch(text)[1])])
	})
}

// parts are the points that have a value. Another part begins after each step without one.
func parts(values []model.SamplePair, r promv1.Range) (all []plotter.XYs) {
	last := math.Inf(-1)
	for _, v := range values {
		x, y := v.Timestamp.Time().Sub(r.Start).Minutes(), float64(v.Value)
		if math.IsNaN(y) || math.IsInf(y, 0) {
			continue
		}
		if x-last > 1.5*r.Step.Minutes() {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], plotter.XY{X: x, Y: y})
		last = x
	}
	return all
}

// rows are the labels of a vector with their values, sorted.
func rows(vector model.Vector) [][]string {
	if len(vector) == 0 {
		return nil
	}
	var names []string
	for name := range vector[0].Metric {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var all [][]string
	for _, sample := range vector {
		var row []string
		for _, name := range names {
			row = append(row, string(sample.Metric[model.LabelName(name)]))
		}
		all = append(all, append(row, formatUnit("", float64(sample.Value))))
	}
	slices.SortFunc(all, slices.Compare)
	return slices.Insert(all, 0, append(names, "value"))
}

// scale is how values of a size are written: the factor of a unit, and its name.
type scale struct {
	factor float64
	suffix string
}

// scaleOf is the scale for values up to the highest, of a unit of Grafana.
func scaleOf(unit string, highest float64) scale {
	switch unit {
	case "s":
		switch {
		case highest >= 3600:
			return scale{3600, " h"}
		case highest >= 60:
			return scale{60, " min"}
		case highest > 0 && highest < 1:
			return scale{1e-3, " ms"}
		}
		return scale{1, " s"}
	case "bytes":
		return scale{1 << 20, " MiB"}
	case "ops":
		return scale{1, "/s"}
	case "percentunit":
		return scale{1e-2, " %"}
	}
	return scale{factor: 1}
}

func formatUnit(unit string, value float64) string {
	by := scaleOf(unit, value)
	value /= by.factor
	if value >= 1000 {
		return strconv.FormatFloat(value, 'f', 0, 64) + by.suffix
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + by.suffix
}
