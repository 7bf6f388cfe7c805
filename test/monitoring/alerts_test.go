// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// readAlerts reads the rules as Prometheus does.
func readAlerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(root, "monitoring", "alerts.yaml"), false, model.UTF8Validation, promQL)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if _, twice := all[rule.Alert]; twice || rule.Alert == "" {
				t.Errorf("alert %q exists twice, or is none", rule.Alert)
			}
			all[rule.Alert] = rule
		}
	}
	return all
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	k := readReference(t)
	for name, rule := range readAlerts(t) {
		for _, wrong := range k.check(rule.Expr) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, "docs", "runbooks")
	alerts := readAlerts(t)
	for name, rule := range alerts {
		page, err := os.ReadFile(filepath.Join(folder, name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		var headings []string
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "#") {
				headings = append(headings, strings.TrimSpace(line))
			}
		}
		if diff := cmp.Diff([]string{"# " + name, "## Find the cause", "## What to do"}, headings); diff != "" {
			t.Errorf("headings of %s (-want +got):\n%s", name, diff)
		}
		if rule.Annotations["runbook_url"] != "docs/runbooks/"+name+".md" || rule.Annotations["summary"] == "" ||
			!slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) || rule.For == 0 {
			t.Errorf("%s: %+v", name, rule)
		}
	}
	pages, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if _, exists := alerts[strings.TrimSuffix(page.Name(), ".md")]; !exists {
			t.Errorf("%s is of no alert", page.Name())
		}
	}
}
