// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drover.io/test/framework"
)

// TestMetricsAreThoseOfTheReference runs the main workflow and compares what the managers serve with the reference. It
// finds that no series names a Machine, and that the series of a Cluster end with it.
func TestMetricsAreThoseOfTheReference(t *testing.T) {
	addresses, args, err := framework.MetricsAddresses()
	if err != nil {
		t.Fatal(err)
	}
	ctx, flow := start(t, framework.Options{LeaderElection: true, Args: args})
	run(ctx, t, func(ctx context.Context) error { return flow.Create(ctx, 3) }, running(flow, 3))
	machines, err := flow.Machines(ctx)
	if err != nil {
		t.Fatal(err)
	}
	documented := readReference(t)
	seen := map[string]bool{}
	for _, address := range addresses {
		for name, family := range scrape(ctx, t, address) {
			seen[name] = true
			checkFamily(t, documented, family)
			for _, m := range machines {
				if text := family.String(); strings.Contains(text, m.Name) || strings.Contains(text, string(m.UID)) {
					t.Errorf("%s has a series of a Machine", name)
				}
			}
		}
	}
	for name, metric := range documented {
		if metric.foreign && !seen[name] {
			t.Errorf("no manager serves %s, which dashboards use", name)
		}
	}
	series := seriesOf(scrape(ctx, t, addresses["machine-controller"]), flow.Cluster)
	for _, want := range []string{"machine_controller_machine_deployment_replicas", "machine_controller_machine_deployment_ready_duration_seconds", "machine_controller_workload_connected"} {
		if !slices.Contains(series, want) {
			t.Errorf("the Cluster has no series of %s, but of %v", want, series)
		}
	}
	run(ctx, t, flow.Delete, flow.AwaitNothingLeft)
	if left := seriesOf(scrape(ctx, t, addresses["machine-controller"]), flow.Cluster); len(left) > 0 {
		t.Errorf("the deleted Cluster has series of %v", left)
	}
}

func scrape(ctx context.Context, t *testing.T, address string) map[string]*dto.MetricFamily {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// seriesOf are the metrics with a series whose label "cluster" is that Cluster.
func seriesOf(families map[string]*dto.MetricFamily, cluster string) (names []string) {
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "cluster" && label.GetValue() == cluster && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// documentedMetric is a line of the reference.
type documentedMetric struct {
	kind, stability string
	labels          []string
	// foreign is one of controller-runtime or Go.
	foreign bool
}

var (
	line  = regexp.MustCompile("^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([A-Z-]+) \\| (.*) \\| .* \\|$")
	label = regexp.MustCompile("`([a-z_]+)`: ")
)

func readReference(t *testing.T) map[string]documentedMetric {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]documentedMetric{}
	for text := range strings.Lines(string(page)) {
		if match := line.FindStringSubmatch(strings.TrimSpace(text)); match != nil {
			metric := documentedMetric{kind: match[2], stability: match[3], foreign: match[3] == "-"}
			for _, name := range label.FindAllStringSubmatch(match[4], -1) {
				metric.labels = append(metric.labels, name[1])
			}
			slices.Sort(metric.labels)
			all[match[1]] = metric
		}
	}
	return all
}

// checkFamily compares a metric that a manager serves with the reference.
func checkFamily(t *testing.T, documented map[string]documentedMetric, family *dto.MetricFamily) {
	t.Helper()
	name := family.GetName()
	want, exists := documented[name]
	if !exists {
		if strings.HasPrefix(name, "drover_") || strings.HasPrefix(name, "machine_controller_") {
			t.Errorf("the reference lacks %s", name)
		}
		return
	}
	if kind := strings.ToLower(family.GetType().String()); kind != want.kind {
		t.Errorf("%s is a %s, not a %s", name, kind, want.kind)
	}
	if prefix := fmt.Sprintf("[%s] ", want.stability); !want.foreign && !strings.HasPrefix(family.GetHelp(), prefix) {
		t.Errorf("the help of %s is %q", name, family.GetHelp())
	}
	for _, metric := range family.GetMetric() {
		var labels []string
		for _, pair := range metric.GetLabel() {
			labels = append(labels, pair.GetName())
		}
		slices.Sort(labels)
		if diff := cmp.Diff(want.labels, labels); diff != "" {
			t.Errorf("labels of %s (-reference +served):\n%s", name, diff)
			return
		}
	}
}
