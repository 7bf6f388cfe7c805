// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is what the tests read of one of Grafana.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "monitoring", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".json"); d.UID != want || d.Title == "" || len(d.Panels) == 0 {
			t.Errorf("%s has the uid %q, the title %q and %d panels", file, d.UID, d.Title, len(d.Panels))
		}
		all[d.UID] = d
	}
	return all
}

var (
	interval    = strings.NewReplacer("$__rate_interval", "5m")
	labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)
	variable    = regexp.MustCompile(`\$\{?([a-z]+)\}?`)
	legend      = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

func TestDashboardsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	k := readReference(t)
	for uid, d := range readDashboards(t) {
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
			if v.Type != "query" {
				continue
			}
			match := labelValues.FindStringSubmatch(v.Definition)
			if match == nil {
				t.Errorf("%s: variable %s is %q", uid, v.Name, v.Definition)
				continue
			}
			for _, wrong := range k.check("sum by (" + match[2] + ") (" + match[1] + ")") {
				t.Errorf("%s: variable %s: %s", uid, v.Name, wrong)
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				expr := interval.Replace(target.Expr)
				for _, wrong := range slices.Concat(k.check(expr), legendErrors(expr, target.LegendFormat)) {
					t.Errorf("%s: %s: %s", uid, p.Title, wrong)
				}
				for _, used := range variable.FindAllStringSubmatch(expr, -1) {
					if !slices.Contains(variables, used[1]) {
						t.Errorf("%s: %s: there is no variable %s", uid, p.Title, used[1])
					}
				}
			}
		}
	}
}

// legendErrors are the labels that a legend names and the result of an expression does not have.
func legendErrors(expr, format string) (wrong []string) {
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		return nil
	}
	has := resultLabels(parsed)
	for _, used := range legend.FindAllStringSubmatch(format, -1) {
		if !slices.Contains(has, used[1]) {
			wrong = append(wrong, "the result has no label "+used[1])
		}
	}
	return wrong
}

// resultLabels are the labels of the outermost aggregation.
func resultLabels(expr parser.Expr) []string {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return e.Grouping
	case *parser.BinaryExpr:
		return slices.Concat(resultLabels(e.LHS), resultLabels(e.RHS))
	case *parser.ParenExpr:
		return resultLabels(e.Expr)
	case *parser.Call:
		var all []string
		for _, argument := range e.Args {
			all = append(all, resultLabels(argument)...)
		}
		return all
	}
	return nil
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for uid, d := range readDashboards(t) {
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %q has the id of another one, no query, or is too wide", uid, p.Title)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other, is := taken[at]; is {
						t.Fatalf("%s: panels %q and %q overlap", uid, other, p.Title)
					}
					taken[at] = p.Title
				}
			}
		}
	}
}

// TestEveryMetricIsShown has no metric that only its reference knows.
func TestEveryMetricIsShown(t *testing.T) {
	t.Parallel()
	var used strings.Builder
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				used.WriteString(target.Expr + "\n")
			}
		}
	}
	for name := range readReference(t) {
		base := name
		for _, suffix := range []string{"_sum", "_count", "_bucket"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !strings.Contains(used.String(), base) {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

// TestDashboardsHavePictures expects that pictures are drawn again when a panel is added or renamed.
func TestDashboardsHavePictures(t *testing.T) {
	t.Parallel()
	guides := filepath.Join(root, "docs", "guides")
	page, err := os.ReadFile(filepath.Join(guides, "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	for uid, d := range readDashboards(t) {
		path := "dashboards/" + uid + ".svg"
		if !strings.Contains(string(page), "("+path+")") {
			t.Errorf("monitoring.md does not show %s", path)
		}
		picture, err := os.ReadFile(filepath.Join(guides, path))
		if err != nil {
			t.Errorf("run make dashboards: %v", err)
		}
		for _, p := range d.Panels {
			if !strings.Contains(string(picture), ">"+p.Title+"<") {
				t.Errorf("the picture of %s has no panel %q: run make dashboards", uid, p.Title)
			}
		}
	}
}
