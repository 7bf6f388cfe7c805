// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing runs a scenario with managers that export spans, and compares the trace of its Machine.
package tracing

import (
	"cmp"
	"context"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/tracing/tracingtest"
	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/parser"
	"drover.io/test/scenarios/internal/runner"
)

// waitTimeout bounds each wait; it does not measure how long one takes.
const waitTimeout = 10 * time.Minute

const namespace = "tracing"

var update = flag.Bool("update", false, "write the trace instead of comparing it")

// TestTraceOfAMachine follows a Machine from its creation to its deletion.
func TestTraceOfAMachine(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds; the managers inherit it
	receiver := tracingtest.Receive(t)
	stack := start(t, "--tracing-endpoint=http://"+receiver.Address)
	s := &runner.Runner{Stack: stack, Namespace: namespace, Timeout: waitTimeout, Progress: t.Logf}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps, err := parser.Load("scenario", "../given", s.Variables())
	if err != nil {
		t.Fatal(err)
	}
	draining := &clusterv1.Machine{}
	for _, step := range steps {
		if step.File == "06-when.yaml" {
			// The crash must come after the export of what was emitted before.
			await(t, receiver, "machine.create", "machine.create.ready", "node.cordon", "node.drain_pass")
			if err := stack.ManagementClient.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "traced-1"}, draining); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Run(t.Context(), []parser.Step{step}); err != nil {
			t.Fatal(err)
		}
	}
	spans := await(t, receiver, "machine.delete", "inframachine.delete", "bootstrapconfig.create", "token.delete", "certificate.approve")
	checkTrace(t, spans, draining)
	compare(t, describe(spans))
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// start starts a stack whose managers all have the argument.
func start(t *testing.T, argument string) *framework.Stack {
	t.Helper()
	args := map[string][]string{}
	for _, manager := range []string{"machine-controller", "bootstrap", "infra-sim"} {
		args[manager] = []string{argument}
	}
	stack, err := framework.Start(t.Context(), framework.Options{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	return stack
}

// await waits for spans of these names, and returns all.
func await(t *testing.T, receiver *tracingtest.Receiver, names ...string) []tracingtest.Received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	has := func(all []tracingtest.Received, name string) bool {
		return slices.ContainsFunc(all, func(s tracingtest.Received) bool { return s.GetName() == name })
	}
	spans, err := receiver.Await(ctx, func(all []tracingtest.Received) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !has(all, name) })
	})
	if err != nil {
		t.Fatalf("%v: received\n%s", err, strings.Join(describe(spans), "\n"))
	}
	return spans
}

// checkTrace checks that all spans are in the trace of the Machine, each below another but for the root, and that the drain
// began when the status that the crash left behind has it.
func checkTrace(t *testing.T, spans []tracingtest.Received, draining *clusterv1.Machine) {
	t.Helper()
	id, byID := strings.ReplaceAll(string(draining.UID), "-", ""), named(spans)
	for _, s := range spans {
		if got := hex.EncodeToString(s.GetTraceId()); got != id {
			t.Errorf("%s is in the trace %s, want %s", s.GetName(), got, id)
		}
		if s.Text("drover.machine.uid") != string(draining.UID) || s.Text("drover.machine.name") != draining.Name {
			t.Errorf("%s is about the Machine %q", s.GetName(), s.Text("drover.machine.name"))
		}
		if _, found := byID[string(s.GetParentSpanId())]; !found && s.GetName() != "machine.create" {
			t.Errorf("%s has no parent", s.GetName())
		}
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s ends before it starts", s.GetName())
		}
		if began := draining.Status.Deletion.NodeDrainStartTime; s.GetName() == "machine.delete.drain" && int64(s.GetStartTimeUnixNano()) != began.UnixNano() {
			t.Errorf("the drain starts at %s, want %s", time.Unix(0, int64(s.GetStartTimeUnixNano())), began)
		}
	}
}

// named are the names of the spans by ID.
func named(spans []tracingtest.Received) map[string]string {
	names := map[string]string{}
	for _, s := range spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	return names
}

// expectedError is the error of a drain that waits for a PodDisruptionBudget. Calls that fail otherwise are left out of the
// comparison: on a machine under load they may, and are repeated.
const expectedError = "budget"

// describe is a line for each kind of span: its path from the root, the manager, the error, and events.
func describe(spans []tracingtest.Received) []string {
	names, parents := named(spans), map[string]string{}
	for _, s := range spans {
		parents[string(s.GetSpanId())] = string(s.GetParentSpanId())
	}
	var lines []string
	for _, s := range spans {
		path := s.GetName()
		for at := string(s.GetParentSpanId()); at != ""; at = parents[at] {
			path = cmp.Or(names[at], "?") + " > " + path
		}
		line := path + ": " + s.Service
		switch kind := s.Text("error.type"); kind {
		case "":
		case expectedError:
			line += ", " + kind
		default:
			continue
		}
		for _, e := range s.GetEvents() {
			for _, a := range e.GetAttributes() {
				if a.GetKey() == "drover.eviction.outcome" {
					line += ", " + e.GetName() + " " + a.GetValue().GetStringValue()
				}
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestGuideHasEverySpan looks for the names of the spans in the guide.
func TestGuideHasEverySpan(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "tracing.md"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(filepath.Join("testdata", "trace.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(trace)) {
		path, _, _ := strings.Cut(line, ": ")
		name := path[strings.LastIndex(path, " ")+1:]
		if !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("the guide lacks %s", name)
		}
	}
}

// compare compares the trace with the golden file.
func compare(t *testing.T, lines []string) {
	t.Helper()
	golden, got := filepath.Join("testdata", "trace.golden"), strings.Join(lines, "\n")+"\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}
