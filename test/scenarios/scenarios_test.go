// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenarios runs the scenarios of its folders on real control planes with Drover's real
// managers. README.md describes the format.
package scenarios

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover.io/test/controlplane"
	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/parser"
	"drover.io/test/scenarios/internal/permissions"
	"drover.io/test/scenarios/internal/runner"
)

// waitTimeout bounds each wait; it does not measure how long one takes.
var waitTimeout = flag.Duration("wait-timeout", 10*time.Minute, "how long something may take to become true")

var update = flag.Bool("update", false, "write the answers of kubectl drover instead of comparing them")

// parallelScenarios is how many scenarios run at the same time: most of them wait most of the time.
const parallelScenarios = "8"

// shortTimeouts makes the manager give a workload cluster up sooner than it should where people
// depend on it.
var shortTimeouts = []string{
	"--machine-safety-apiserver-statuscheck-period=1s",
	"--machine-safety-apiserver-statuscheck-timeout=5s",
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallelScenarios); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestScenarios(t *testing.T) {
	folders, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	plugin := buildPlugin(t)
	stack := start(t)
	t.Run("scenarios", func(t *testing.T) {
		for _, readme := range folders {
			name := filepath.Base(filepath.Dir(readme))
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, stack, plugin, name)
			})
		}
	})
	checkLogs(t, stack)
	if !t.Failed() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		checkPermissions(t, stack)
	}
	left, err := os.ReadDir(stack.InstanceDir())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, entry := range left {
		if entry.IsDir() && !t.Failed() {
			t.Errorf("host %s is left", entry.Name())
		}
	}
}

// checkLogs looks for errors of reconciles that were only about a workload cluster that is down.
// The connection reports that, once.
func checkLogs(t *testing.T, stack *framework.Stack) {
	t.Helper()
	for _, m := range stack.Managers() {
		log, err := os.ReadFile(m.Log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "Reconciler error") && strings.Contains(line, "connection refused") {
				t.Errorf("%s: %s", m.Name, line)
			}
		}
	}
}

// start starts what the scenarios share.
func start(t *testing.T) *framework.Stack {
	t.Helper()
	stack, err := framework.Start(t.Context(), framework.Options{
		Args:         map[string][]string{"machine-controller": shortTimeouts},
		ControlPlane: func(o *controlplane.Options) { o.AuditPolicy = permissions.Policy(framework.Namespace) },
	})
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

// buildPlugin compiles kubectl-drover.
func buildPlugin(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl-drover")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "kubectl-drover")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building kubectl-drover: %v\n%s", err, out)
	}
	return program
}

// run runs the scenario of a folder.
func run(t *testing.T, stack *framework.Stack, plugin, name string) {
	s := &runner.Runner{Stack: stack, Namespace: name, Timeout: *waitTimeout, Progress: t.Logf, Plugin: plugin, Update: *update}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			s.Timeout = min(s.Timeout, 30*time.Second)
		}
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("the end: %v", err)
		}
	}()
	steps, err := parser.Load(name, "given", s.Variables())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), steps); err != nil {
		t.Error(err)
	}
}
