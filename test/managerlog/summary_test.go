// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package managerlog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The second run has other names, times and UIDs, and the managers' lines come in another order.
const (
	coreRun = `{"ts":"2026-01-01T00:00:01.5Z","v":0,"msg":"starting"}
{"ts":"2026-01-01T00:00:02Z","v":0,"msg":"created MachineSet","controller":"machinedeployment","reconcileID":"1","MachineDeployment":{"name":"pool","namespace":"ns"},"MachineSet":{"name":"pool-aaaaaaaaaa","namespace":"ns"}}
{"ts":"2026-01-01T00:00:03Z","v":0,"msg":"created Machine","controller":"machineset","MachineSet":{"name":"pool-aaaaaaaaaa","namespace":"ns"},"Machine":{"name":"pool-aaaaaaaaaa-bbbbb","namespace":"ns"}}
{"ts":"2026-01-01T00:00:03.1Z","v":0,"msg":"created Machine","controller":"machineset","MachineSet":{"name":"pool-aaaaaaaaaa","namespace":"ns"},"Machine":{"name":"pool-aaaaaaaaaa-ccccc","namespace":"ns"}}
{"ts":"2026-01-01T00:00:05Z","v":0,"msg":"Machine phase changed","controller":"machine","Machine":{"name":"pool-aaaaaaaaaa-bbbbb","namespace":"ns"},"phase":"Provisioned","previousPhase":"Pending"}
{"ts":"2026-01-01T00:00:06Z","v":0,"msg":"Machine phase changed","controller":"machine","Machine":{"name":"pool-aaaaaaaaaa-bbbbb","namespace":"ns"},"phase":"Running","previousPhase":"Provisioned"}
{"ts":"2026-01-01T00:00:06Z","v":0,"msg":"Machine phase changed","controller":"machine","Machine":{"name":"pool-aaaaaaaaaa-ccccc","namespace":"ns"},"phase":"Running","previousPhase":"Pending"}
{"ts":"2026-01-01T00:00:06Z","v":1,"msg":"waiting","controller":"machine","Machine":{"name":"pool-aaaaaaaaaa-ccccc","namespace":"ns"}}
{"ts":"2026-01-01T00:00:06Z","level":"ERROR","msg":"Reconciler error","controller":"machine","Machine":{"name":"pool-aaaaaaaaaa-ccccc","namespace":"ns"},"err":"conflict"}`
	infraRun = `{"ts":"2026-01-01T00:00:04Z","v":0,"msg":"created instance","controller":"simmachine","SimMachine":{"name":"pool-aaaaaaaaaa-bbbbb","namespace":"ns"},"providerID":"sim:///zone-a/sim-0f8fad5b-d9cb-469f-a165-70867728950e"}
{"ts":"2026-01-01T00:00:07Z","v":0,"msg":"created instance","controller":"simmachine","SimMachine":{"name":"pool-aaaaaaaaaa-ccccc","namespace":"ns"},"providerID":"sim:///zone-a/sim-7c9e6679-7425-40de-944b-e07fc1f90ae7"}`
	want = `Machine MACHINE-OF-SET-1: 2
  core/machine: Machine phase changed phase="Running"
  core/machineset: created Machine MachineSet="ns/SET-1"
  infra/simmachine: created instance providerID="sim:///zone-a/sim-UID"

MachineSet SET-1: 1
  core/machinedeployment: created MachineSet MachineDeployment="ns/pool"
`
)

func TestSummaryIsTheSameForEachRun(t *testing.T) {
	t.Parallel()
	renamed := strings.NewReplacer("aaaaaaaaaa", "zzzzzzzzzz", "bbbbb", "yyyyy", "ccccc", "xxxxx", "00:00:07", "00:00:04.5", "0f8fad5b", "aaaabbbb", "2026", "2031")
	for name, run := range map[string][2]string{
		"one run":     {coreRun, infraRun},
		"another run": {renamed.Replace(coreRun), renamed.Replace(infraRun)},
		// It writes a status between the request and the end of a deletion.
		"a slow machine": {coreRun + "\n" + strings.NewReplacer(`"Running"`, `"Deleting"`, `"Pending"`, `"Running"`, ":06Z", ":08Z").
			Replace(strings.Split(coreRun, "\n")[6]), infraRun},
	} {
		core, err := Read("core", strings.NewReader(run[0]))
		if err != nil {
			t.Fatal(err)
		}
		infra, err := Read("infra", strings.NewReader(run[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, entries := range [][]Entry{slices.Concat(core, infra), slices.Concat(infra, core)} {
			if diff := cmp.Diff(want, Summary(entries)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestSummaryShowsWhatIsMissing(t *testing.T) {
	t.Parallel()
	lines := strings.Split(coreRun, "\n")
	for i := range lines {
		if strings.Contains(lines[i], `"v":1`) || strings.Contains(lines[i], "ERROR") || strings.Contains(lines[i], "Provisioned\",\"previous") || strings.Contains(lines[i], "starting") {
			continue
		}
		core, err := Read("core", strings.NewReader(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")))
		if err != nil {
			t.Fatal(err)
		}
		infra, err := Read("infra", strings.NewReader(infraRun))
		if err != nil {
			t.Fatal(err)
		}
		if Summary(slices.Concat(core, infra)) == want {
			t.Errorf("the summary does not change without %s", lines[i])
		}
	}
}

func TestReadRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	if _, err := Read("core", strings.NewReader(`{"ts":"2026-01-01T00:00:01Z","msg":"a"}`+"\npanic: nil map")); err == nil || !strings.Contains(err.Error(), "line 2 of core") {
		t.Errorf("the error is %v", err)
	}
}

func TestTextOfValues(t *testing.T) {
	t.Parallel()
	entries, err := Read("core", strings.NewReader(
		`{"ts":"2026-01-01T00:00:01Z","v":0,"msg":"m","Node":{"name":"n"},"Machine":{"name":"m","namespace":"ns"},"Cluster":"ns/c","count":3,"after":1.8e+12,"other":{"x":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Node": "n", "Machine": "ns/m", "Cluster": "ns/c", "count": "3", "after": "30m0s", "other": "map[x:1]"}
	if diff := cmp.Diff(want, entries[0].Values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckOrder(t *testing.T) {
	t.Parallel()
	core, err := Read("core", strings.NewReader(coreRun))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckOrder(core, "created Machine", "Machine phase changed"); err != nil {
		t.Error(err)
	}
	if err := CheckOrder(core, "Machine phase changed", "created Machine"); err == nil || !strings.Contains(err.Error(), `"created Machine" before "Machine phase changed"`) {
		t.Errorf("in the wrong order: %v", err)
	}
	if err := CheckOrder(core, "created Machine", "created instance"); err == nil || !strings.Contains(err.Error(), `lacks "created instance"`) {
		t.Errorf("without a message: %v", err)
	}
}

// TestRandomNamesAreNoDurations has random ends of names that are a number with a unit.
func TestRandomNamesAreNoDurations(t *testing.T) {
	t.Parallel()
	entries, err := Read("bootstrap", strings.NewReader(
		`{"ts":"2026-01-01T00:00:02Z","v":0,"msg":"approved","controller":"csr","Machine":{"name":"a","namespace":"ns"},"request":"node-csr-24567h","token":"bootstrap-token-98765s","after":"30m"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "Machine a: 1\n  bootstrap/csr: approved after=\"DURATION\" request=\"node-CSR\" token=\"TOKEN\"\n"
	if diff := cmp.Diff(want, Summary(entries)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
