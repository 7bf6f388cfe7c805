// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests what operators get to watch Drover: alerts, dashboards and the configuration of kube-state-metrics.
// It is a module of its own, because it contains the query engine of Prometheus.
package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../.."

// known are the metrics that expressions may use, with the labels of each, and the values of those that are fixed.
type known map[string]map[string][]string

var (
	row   = regexp.MustCompile("^\\| `([a-z_]+)` \\| ([a-z]+) \\| [A-Z-]+ \\| (.*) \\| .* \\|$")
	label = regexp.MustCompile("`([a-z_]+)`: ([^;]*)")
	value = regexp.MustCompile("`([^`]*)`")
)

// readReference reads the metrics of the reference. test/e2e finds all of them, and no others, in real managers.
func readReference(t *testing.T) known {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := known{"up": nil} // which Prometheus writes itself
	for line := range strings.Lines(string(page)) {
		match := row.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		found := map[string][]string{}
		for _, l := range label.FindAllStringSubmatch(match[3], -1) {
			var values []string
			if strings.HasPrefix(l[2], "`") || strings.HasPrefix(l[2], "empty") {
				for _, v := range value.FindAllStringSubmatch(l[2], -1) {
					values = append(values, v[1])
				}
			}
			found[l[1]] = values
		}
		if match[2] != "histogram" {
			all[match[1]] = found
			continue
		}
		all[match[1]+"_sum"], all[match[1]+"_count"] = found, found
		bucket := map[string][]string{"le": nil}
		for name, values := range found {
			bucket[name] = values
		}
		all[match[1]+"_bucket"] = bucket
	}
	if len(all) < 40 {
		t.Fatalf("the reference has %d metrics", len(all))
	}
	all[leaderMetric]["namespace"] = nil // of the pod: Prometheus adds it in Kubernetes
	return all
}

// leaderMetric is about a process, whose namespace tells installations apart.
const leaderMetric = "leader_election_master_status"

// targetLabels are those that Prometheus adds to every series.
var targetLabels = []string{"instance", "job"}

var promQL = parser.NewParser(parser.Options{})

// check returns what is wrong with an expression: its syntax, or metrics, labels and values of labels that do not exist.
func (k known) check(expr string) []string {
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	var metrics []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			metrics = append(metrics, selector.Name)
			wrong = append(wrong, k.checkSelector(selector)...)
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var grouping []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouping = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouping = slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
			}
		}
		for _, name := range grouping {
			if !slices.Contains(targetLabels, name) && !slices.ContainsFunc(metrics, func(m string) bool { _, has := k[m][name]; return has }) {
				wrong = append(wrong, fmt.Sprintf("no metric of %v has the label %s", metrics, name))
			}
		}
		return nil
	})
	return wrong
}

func (k known) checkSelector(selector *parser.VectorSelector) (wrong []string) {
	found, exists := k[selector.Name]
	if !exists {
		return []string{fmt.Sprintf("there is no metric %q", selector.Name)}
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel || slices.Contains(targetLabels, matcher.Name) {
			continue
		}
		values, has := found[matcher.Name]
		if !has {
			wrong = append(wrong, fmt.Sprintf("%s has no label %s", selector.Name, matcher.Name))
			continue
		}
		for _, one := range strings.Split(matcher.Value, "|") {
			if values != nil && !strings.Contains(one, "$") && one != ".*" && one != "other" && !slices.Contains(values, one) {
				wrong = append(wrong, fmt.Sprintf("label %s of %s is never %q", matcher.Name, selector.Name, one))
			}
		}
	}
	return wrong
}

func TestWrongExpressionsAreFound(t *testing.T) {
	t.Parallel()
	k := readReference(t)
	for expr, want := range map[string]int{
		`sum by (phase) (machine_controller_machines_total{phase="Running"})`:                             0,
		`histogram_quantile(0.5, sum by (le) (rate(drover_infra_provision_duration_seconds_bucket[5m])))`: 0,
		`sum by (cluster) (machine_controller_machines_total)`:                                            1,
		`machine_controller_machines_total{machine="m"}`:                                                  1,
		`machine_controller_machines_total{phase=~"Running|Ready"}`:                                       1,
		`machine_controller_machine_total`:                                                                1,
		`rate(drover_infra_provision_duration_seconds[5m])`:                                               1,
		`rate(machine_controller_machines_total)`:                                                         1,
		`drover_infra_machines and on (node) drover_build_info`:                                           1,
	} {
		if got := k.check(expr); len(got) != want {
			t.Errorf("%s: %q", expr, got)
		}
	}
}
