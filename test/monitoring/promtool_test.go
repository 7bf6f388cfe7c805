// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// ruleTests are the part of promtool's format that alerts_test.yaml uses.
type ruleTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []ruleTest     `json:"tests"`
}

type ruleTest struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series, Values string
	} `json:"input_series"`
	Alerts []struct {
		EvalTime model.Duration `json:"eval_time"`
		Name     string         `json:"alertname"`
		Want     []alert        `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

type alert struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

// TestAlertsFireForTheirCauses runs the tests of promtool with the engine of Prometheus, so that they run where only Go is.
func TestAlertsFireForTheirCauses(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "monitoring", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests := &ruleTests{}
	if err := yaml.UnmarshalStrict(content, tests); err != nil {
		t.Fatal(err)
	}
	alerts, fired := readAlerts(t), map[string]bool{}
	for _, test := range tests.Tests {
		for _, each := range test.Alerts {
			fired[each.Name] = fired[each.Name] || len(each.Want) > 0
		}
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			series := test.series(t)
			for _, each := range test.Alerts {
				rule, exists := alerts[each.Name]
				if !exists {
					t.Fatalf("there is no alert %s", each.Name)
				}
				got := firing(t, series, rule, time.Duration(tests.EvaluationInterval), time.Duration(each.EvalTime))
				if diff := cmp.Diff(each.Want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s after %s (-want +got):\n%s", each.Name, each.EvalTime, diff)
				}
			}
		})
	}
	for name := range alerts {
		if !fired[name] {
			t.Errorf("%s fires in no test", name)
		}
	}
}

// series are the series of a test, which begin at time 0.
func (r ruleTest) series(t *testing.T) storage.Queryable {
	t.Helper()
	var all []storage.Series
	var sets []labels.Labels
	for _, input := range r.InputSeries {
		set, values, err := promQL.ParseSeriesDesc(input.Series + " " + input.Values)
		if err != nil {
			t.Fatalf("%s: %v", input.Series, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{time: int64(i) * time.Duration(r.Interval).Milliseconds(), value: v.Value})
			}
		}
		all, sets = append(all, storage.NewListSeries(set, samples)), append(sets, set)
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var matching []storage.Series
		for i, set := range sets {
			if matches(set, matchers) {
				matching = append(matching, all[i])
			}
		}
		return &seriesSet{left: matching}
	}}}
}

// sample is a value of a series. It is no histogram, and has no start time.
type sample struct {
	chunks.Sample
	time  int64
	value float64
}

func (s sample) T() int64               { return s.time }
func (s sample) F() float64             { return s.value }
func (sample) ST() int64                { return 0 }
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample    { return s }

// seriesSet iterates over series.
type seriesSet struct {
	left []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series              { return s.at }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

func matches(set labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(set.Get(m.Name)) {
			return false
		}
	}
	return true
}

// firing are the alerts of a rule that fire at a time: those whose expression has had a result at each evaluation for as long
// as the rule demands.
func firing(t *testing.T, series storage.Queryable, rule rulefmt.Rule, interval, at time.Duration) []alert {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: math.MaxInt32, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL})
	defer func() { _ = engine.Close() }()
	active := map[string]time.Duration{}
	var result promql.Vector
	for now := time.Duration(0); now <= at; now += interval {
		result = evaluate(t, engine, series, rule.Expr, now)
		before := active
		active = map[string]time.Duration{}
		for _, sample := range result {
			key := sample.Metric.String()
			active[key] = now
			if since, known := before[key]; known {
				active[key] = since
			}
		}
	}
	var all []alert
	for _, sample := range result {
		if at-active[sample.Metric.String()] >= time.Duration(rule.For) {
			all = append(all, render(t, rule, sample, at))
		}
	}
	return all
}

func evaluate(t *testing.T, engine *promql.Engine, series storage.Queryable, expr string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), series, nil, expr, time.UnixMilli(at.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	copied := make(promql.Vector, 0, len(vector))
	for _, sample := range vector {
		sample.Metric = sample.Metric.Copy()
		copied = append(copied, sample)
	}
	return copied
}

// render is the alert of a sample, with its templates expanded.
func render(t *testing.T, rule rulefmt.Rule, sample promql.Sample, at time.Duration) alert {
	t.Helper()
	own := sample.Metric.DropReserved(func(name string) bool { return name == model.MetricNameLabel }).Map()
	data := template.AlertTemplateData(own, nil, "", sample)
	expand := func(text string) string {
		expander := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}{{$value := .Value}}"+text, rule.Alert, data,
			model.TimeFromUnixNano(at.Nanoseconds()), func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }, &url.URL{}, nil)
		expanded, err := expander.Expand()
		if err != nil {
			t.Fatal(err)
		}
		return expanded
	}
	all := alert{map[string]string{}, map[string]string{}}
	for name, value := range own {
		all.Labels[name] = value
	}
	for name, value := range rule.Labels {
		all.Labels[name] = expand(value)
	}
	for name, value := range rule.Annotations {
		all.Annotations[name] = expand(value)
	}
	return all
}
