// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lived is a run whose creation cost that many writes and that much processor time.
func lived(core string, writes int, cpu float64) Run {
	return Run{Core: core, Scenario: "10", Machines: 10, Phases: []Phase{
		{Name: Empty, RSS: 50},
		{Name: Create, Writes: writes, CPU: cpu},
		{Name: Idle, Wall: 10, RSS: 51},
	}}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		numbers []float64
		want    float64
	}{
		"is the middle of an odd number":              {[]float64{9, 1, 5}, 5},
		"is the mean of the middle of an even number": {[]float64{9, 1, 5, 6}, 5.5},
		"is nothing of nothing":                       {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Median(test.numbers); got != test.want {
				t.Errorf("the median is %g, want %g", got, test.want)
			}
		})
	}
}

func TestCompareTakesTheMedianOfRatiosRoundByRound(t *testing.T) {
	t.Parallel()
	runs := []Run{
		lived(Ours, 50, 1), lived(Upstream, 100, 4),
		lived(Ours, 50, 2), lived(Upstream, 100, 4),
		lived(Ours, 50, 8), lived(Upstream, 100, 10),
	}
	got := map[string]float64{}
	for _, figure := range Figures() {
		if ratio, ok := Compare(figure, "10", runs); ok {
			got[figure.Name] = ratio
		}
	}
	want := map[string]float64{
		"management writes per Machine, create": 0.5,
		"CPU ms per Machine, create":            0.5,
		"memory per Machine when idle, KiB":     1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestTableHasAColumnForEachCore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Table(&out, "10", []Run{lived(Ours, 49, 1), lived(Upstream, 150, 4)})
	for _, line := range []string{
		"| 10 machines | drover | upstream | ours / upstream | target |",
		"| management writes per Machine, create | 4.90 | 15.0 | 0.33 | ≤ 5 |",
		"| CPU ms per Machine, create | 100 | 400 | 0.25 | ≤ 1/5 |",
		"| seconds to roll | – | – | – |  |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.json")
	want := []Run{lived(Ours, 1, 2)}
	if err := WriteJSON(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSON(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestDocsKeepWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, page), []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := []Run{lived(Ours, 1, 2), lived(Upstream, 2, 4)}
	if err := WriteDocs(folder, runs); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("before\n"+begin+string(Tables(runs))+end+"after\n", string(got)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	for _, each := range charts() {
		drawn, err := os.ReadFile(filepath.Join(folder, plots, each.file))
		if err != nil || !bytes.Contains(drawn, []byte("<svg")) {
			t.Errorf("%s is no plot: %v", each.file, err)
		}
	}
}

func TestDocsWithoutMarksAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"no beginning": end, "no end": begin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := replace([]byte(text), nil); err == nil {
				t.Error("replaced")
			}
		})
	}
}

func TestGrowthComparesLargestWithSmallestScenario(t *testing.T) {
	t.Parallel()
	small, large, upstream, spread := lived(Ours, 40, 1), lived(Ours, 9000, 300), lived(Upstream, 1, 1), lived(Ours, 1, 1)
	large.Scenario, large.Machines = "2000", 2000
	upstream.Scenario, upstream.Machines = "5000", 5000
	spread.Scenario, spread.Machines = "200x5", 1000
	var out bytes.Buffer
	Growth(&out, []Run{large, upstream, spread, small})
	for _, line := range []string{
		"| drover, by machines | 10 | 2000 | 2000 / 10 | target |",
		"| management writes per Machine, create | 4.00 | 4.50 | 1.12 | ≤ 1.2 |",
		"| CPU ms per Machine, create | 100 | 150 | 1.50 | ≤ 1.2 |",
		"| CPU ms per Machine, roll | – | – | – | ≤ 1.2 |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "restart") {
		t.Errorf("what a restart costs does not depend on the number of machines:\n%s", out.String())
	}
	out.Reset()
	Growth(&out, []Run{small, upstream})
	if out.Len() > 0 {
		t.Errorf("one size does not grow:\n%s", out.String())
	}
}
