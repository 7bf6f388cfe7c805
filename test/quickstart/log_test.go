// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/test/framework"
	"drover.io/test/managerlog"
	"drover.io/test/workflow"
)

var update = flag.Bool("update", false, "write the golden file")

// timeout bounds the workflow. It does not measure how long it takes.
const timeout = 4 * time.Minute

// TestLogDescribesTheWorkflow runs the quickstart and compares what the managers log at level 0 with a golden file. Who
// reads the file must be able to see what happened to each object.
func TestLogDescribesTheWorkflow(t *testing.T) {
	json := []string{"--log-format=json"}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	stack, err := framework.Start(ctx, framework.Options{
		Dir: t.TempDir(), Progress: func(step string) { t.Log(step) },
		Args: map[string][]string{"machine-controller": json, "bootstrap": json, "infra-sim": json},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = runOnce(ctx, &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}, newView(devNull(t)))
	if err := errors.Join(err, stack.Stop()); err != nil {
		t.Fatal(err)
	}
	compare(t, managerlog.Summary(read(t, stack)))
}

// read returns what all managers have logged.
func read(t *testing.T, stack *framework.Stack) []managerlog.Entry {
	t.Helper()
	var all []managerlog.Entry
	for _, m := range stack.Managers() {
		log, err := os.Open(m.Log)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := managerlog.Read(m.Name, log)
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		all = append(all, entries...)
	}
	for _, e := range all {
		if e.Error {
			t.Logf("%s logged an error: %s %v", e.Manager, e.Message, e.Values)
		}
	}
	return all
}

func compare(t *testing.T, got string) {
	t.Helper()
	golden := filepath.Join("testdata", "log.golden")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the log has changed, see docs/reference/logs.md (-want +got):\n%s", diff)
	}
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}
