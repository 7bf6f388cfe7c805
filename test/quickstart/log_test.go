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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/managerlog"
	"drover.io/test/workflow"
)

var update = flag.Bool("update", false, "write the golden file")

// timeout bounds the workflow. It does not measure how long it takes.
const timeout = 10 * time.Minute

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
	err = runSteps(ctx, &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"})
	if err := errors.Join(err, stack.Stop()); err != nil {
		t.Fatal(err)
	}
	entries := read(t, stack)
	if err := managerlog.CheckOrder(entries, lifecycle...); err != nil {
		t.Error(err)
	}
	checkPage(t, entries)
	compare(t, managerlog.Summary(entries))
}

// lifecycle are messages about each Machine in the order in which they must be logged, whichever manager logs them.
var lifecycle = []string{
	"created Machine", "created bootstrap data", "created instance", "deleted bootstrap token", "cordoned Node", "deleted instance",
}

// runSteps runs the steps of the quickstart. Before it scales to 0 it waits for the end of the rollout, because the log
// depends on it.
func runSteps(ctx context.Context, demo *workflow.Workflow) error {
	for _, step := range steps(demo) {
		if step.title == "scaling to 0" {
			if err := awaitRolledOut(ctx, demo); err != nil {
				return err
			}
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitRolledOut waits until the MachineDeployment reports the end of the rollout and the superseded MachineSet is deleted.
func awaitRolledOut(ctx context.Context, demo *workflow.Workflow) error {
	err := demo.AwaitCondition(ctx, demo.MachineDeployment(), clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionFalse, "")
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		sets := &clusterv1.MachineSetList{}
		err := demo.Stack.ManagementClient.List(ctx, sets, client.InNamespace(demo.Namespace))
		return err == nil && len(sets.Items) == 1, err
	})
}

// checkPage checks that the documentation has all messages of the log that name an object.
func checkPage(t *testing.T, entries []managerlog.Entry) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "logs.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range managerlog.Messages(entries) {
		if !strings.Contains(string(page), "`"+message+"`") {
			t.Errorf("docs/reference/logs.md lacks %q", message)
		}
	}
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
