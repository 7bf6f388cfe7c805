// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// answers are a Prometheus that has one series, with a label and without values at times.
type answers struct{ queries []string }

func (a *answers) Query(_ context.Context, query string, at time.Time, _ ...promv1.Option) (model.Value, promv1.Warnings, error) {
	a.queries = append(a.queries, query)
	return model.Vector{
		{Metric: model.Metric{"name": "b", "kind": "Machine"}, Value: 7, Timestamp: model.TimeFromUnixNano(at.UnixNano())},
		{Metric: model.Metric{"name": "a", "kind": "Machine"}, Value: 2},
	}, nil, nil
}

func (a *answers) QueryRange(_ context.Context, query string, r promv1.Range, _ ...promv1.Option) (model.Value, promv1.Warnings, error) {
	a.queries = append(a.queries, query)
	stream := &model.SampleStream{Metric: model.Metric{"cloud": "sim"}}
	for i, v := range []model.SampleValue{1, model.SampleValue(math.NaN()), 3} {
		stream.Values = append(stream.Values, model.SamplePair{Timestamp: model.TimeFromUnixNano(r.Start.Add(time.Duration(i) * time.Minute).UnixNano()), Value: v})
	}
	return model.Matrix{stream}, nil, nil
}

func TestPanelsAreEvaluated(t *testing.T) {
	t.Parallel()
	source := &answers{}
	r := promv1.Range{Start: time.Unix(1000, 0), End: time.Unix(1120, 0), Step: time.Minute}
	p := panel{Type: "timeseries", Targets: []target{{`rate(a{cloud=~"$cloud", b="${b}"}[$__rate_interval])`, "of {{cloud}}"}}}
	got, err := p.evaluate(t.Context(), source, r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `rate(a{cloud=~".*", b=".*"}[20s])`; source.queries[0] != want {
		t.Errorf("the query is %s, want %s", source.queries[0], want)
	}
	if l := got.lines; len(l) != 1 || l[0].name != "of sim" || len(l[0].parts) != 2 || l[0].parts[1][0].X != 2 || l[0].parts[1][0].Y != 3 {
		t.Errorf("the lines are %+v: there is a gap at a point without a value, and times are minutes", l)
	}
	p.Type = "table"
	if got, err = p.evaluate(t.Context(), source, r); err != nil {
		t.Fatal(err)
	}
	var table []string
	for _, row := range got.table {
		table = append(table, strings.Join(row, " "))
	}
	if want := "kind name value|Machine a 2|Machine b 7"; strings.Join(table, "|") != want {
		t.Errorf("the table is %q", table)
	}
	p.Type, p.FieldConfig.Defaults.Unit = "stat", "s"
	if got, err = p.evaluate(t.Context(), source, r); err != nil || got.value != "7 s" {
		t.Errorf("the value is %q, %v", got.value, err)
	}
}

type failing struct{ answers }

func (failing) QueryRange(context.Context, string, promv1.Range, ...promv1.Option) (model.Value, promv1.Warnings, error) {
	return nil, nil, errors.New("parse error")
}

func TestAQueryThatFailsIsAnErrorOfItsPanel(t *testing.T) {
	t.Parallel()
	_, err := panel{Type: "timeseries", Title: "Calls", Targets: []target{{Expr: "x("}}}.evaluate(t.Context(), &failing{}, promv1.Range{})
	if err == nil || !strings.Contains(err.Error(), "Calls: parse error") {
		t.Error(err)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"s", 0.25, "250 ms"},
		{"s", 0, "0 s"},
		{"s", 90, "1.5 min"},
		{"s", 7200, "2 h"},
		{"bytes", 64 << 20, "64 MiB"},
		{"ops", 0.5, "0.5/s"},
		{"percentunit", 0.25, "25 %"},
		{"short", 12, "12"},
		{"short", 12345, "12345"},
	} {
		if got := formatUnit(each.unit, each.value); got != each.want {
			t.Errorf("%v in %s is %q, want %q", each.value, each.unit, got, each.want)
		}
	}
}

// TestAllDashboardsAreDrawn draws those of the release. Each panel has its title and what its query answers.
func TestAllDashboardsAreDrawn(t *testing.T) {
	t.Parallel()
	o := options{from: filepath.Join("..", "..", "monitoring", "dashboards"), out: t.TempDir()}
	if err := o.draw(t.Context(), &answers{}, promv1.Range{Start: time.Unix(1000, 0), End: time.Unix(1120, 0)}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.from, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	for _, file := range files {
		d, err := readDashboard(file)
		if err != nil {
			t.Fatal(err)
		}
		drawn := texts(t, filepath.Join(o.out, d.UID+".svg"))
		for _, p := range d.Panels {
			if !strings.Contains(drawn, "\n"+p.Title+"\n") {
				t.Errorf("%s: there is no panel %q", d.UID, p.Title)
			}
		}
		if strings.Contains(drawn, "No data") {
			t.Errorf("%s: a panel shows nothing of what its query answers", d.UID)
		}
	}
}

// texts are the words of a picture, each line of text on a line.
func texts(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all strings.Builder
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if characters, is := token.(xml.CharData); is {
			all.WriteString("\n" + string(characters) + "\n")
		}
	}
}

func TestAPanelThatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	d := &dashboard{Title: "All", Panels: []panel{{Type: "heatmap", Title: "Heat"}}}
	if _, err := d.svg(make([]content, 1), 5); err == nil || !strings.Contains(err.Error(), `Heat: panels of the type "heatmap"`) {
		t.Error(err)
	}
}

func TestAnEmptyPanelSaysSo(t *testing.T) {
	t.Parallel()
	d := &dashboard{Title: "All", Panels: []panel{{Type: "timeseries", Title: "Calls"}, {Type: "table", Title: "Problems"}}}
	for i := range d.Panels {
		d.Panels[i].GridPos.W, d.Panels[i].GridPos.H, d.Panels[i].GridPos.Y = 24, 8, 8*i
	}
	picture, err := d.svg(make([]content, 2), 5)
	if err != nil || strings.Count(string(picture), "No data") != 2 {
		t.Errorf("%v\n%s", err, picture)
	}
}
