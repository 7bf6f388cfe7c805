// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScaffoldsAProviderThatKeepsTheContract scaffolds into a copy of the modules that it needs, builds everything, and
// runs what was scaffolded: the conformance suite, the tests of the new kinds with a real API server, and a few lives in the
// fault rig.
func TestScaffoldsAProviderThatKeepsTheContract(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a copy of the module")
	}
	root := copied(t)
	xcloud, err := named("xcloud", "XCloud") // a name that is sorted after those of the packages that are imported with it
	if err != nil {
		t.Fatal(err)
	}
	if err := xcloud.scaffold(root); err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(repository(t), "hack", "tools", "go.mod")
	generated := t.TempDir() // the other kinds stay as hack/generate.sh has made them
	run(t, filepath.Join(root, "api"), "go", "tool", "-modfile="+tools, "controller-gen", "object", "crd", "paths=./infrastructure/...", "output:crd:dir="+generated)
	kinds, err := filepath.Glob(filepath.Join(generated, "*_xcloud*.yaml"))
	if err != nil || len(kinds) != 2 {
		t.Fatalf("generated %q, %v", kinds, err)
	}
	for _, kind := range kinds {
		if err := os.Rename(kind, filepath.Join(root, "api", "crds", "bases", filepath.Base(kind))); err != nil {
			t.Fatal(err)
		}
	}
	module := filepath.Join(root, "infra-providers")
	run(t, module, "go", "tool", "-modfile="+tools, "controller-gen", "rbac:roleName=drover-infra-xcloud", "paths=./internal/...", "paths=./xcloud/...", "output:rbac:dir=config/rbac/xcloud")
	// Without vet, which would read all dependencies.
	run(t, module, "go", "build", "-o", os.DevNull, "./cmd/xcloud")
	output := run(t, module, "go", "test", "-vet=off", "-v", "./xcloud")
	for _, passed := range []string{
		"--- PASS: TestConformance/creates_once_when_the_answer_was_lost", "--- PASS: TestConformance/finds_the_image_that_a_creation_takes",
		"--- PASS: TestReconcileMachine", "--- PASS: TestSpecIsImmutable", "0 leaked, 0 doubled, 0 stuck",
	} {
		if !strings.Contains(output, passed) {
			t.Errorf("the tests lack %q:\n%s", passed, output)
		}
	}
	for path, line := range map[string]string{
		"docs/README.md":                     "- [VSphereMachine](reference/vspheremachine.md)\n- [XCloudMachine](reference/xcloudmachine.md)\n- [YandexMachine]",
		"monitoring/kube-state-metrics.yaml": "    - *instance\n  - groupVersionKind: {group: infrastructure.drover.io, version: v1alpha1, kind: XCloudMachine}",
		".github/workflows/soak.yml":         ", xcloud]",
	} {
		if content, err := os.ReadFile(filepath.Join(root, path)); err != nil || !strings.Contains(string(content), line) {
			t.Errorf("%s lacks %q, %v", path, line, err)
		}
	}
	if err := xcloud.scaffold(root); err == nil {
		t.Error("a second run wrote over the first")
	}
}

func TestNamesAClouds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		name, kind string
		want       cloud
		ok         bool
	}{
		"takes a name":                         {"acme", "", cloud{"acme", "Acme"}, true},
		"takes a kind in capitals":             {"aws", "AWS", cloud{"aws", "AWS"}, true},
		"refuses no name":                      {"", "", cloud{}, false},
		"refuses capitals in a name":           {"Acme", "", cloud{}, false},
		"refuses a path":                       {"../acme", "", cloud{}, false},
		"refuses a kind of another name":       {"acme", "Other", cloud{}, false},
		"refuses a kind without a capital":     {"acme", "acme", cloud{}, false},
		"refuses what is no Go identifier":     {"my-cloud", "", cloud{}, false},
		"refuses a name that begins with none": {"1and1", "", cloud{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := named(test.name, test.kind)
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("got %v and %v, want %v", got, err, test.want)
			}
		})
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// copied returns a copy of what a scaffold adds to.
func copied(t *testing.T) string {
	t.Helper()
	from, to := repository(t), t.TempDir()
	for _, folder := range []string{"api", "runtime", "infra-providers", "docs", "monitoring", ".github"} {
		err := filepath.WalkDir(filepath.Join(from, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			relative, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(to, relative)), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, relative), content, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "DROVER_SOAK_LIFECYCLES=5")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		command.Env = append(command.Env, "KUBEBUILDER_ASSETS="+filepath.Join(repository(t), "bin", "k8s"))
	}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, output)
	}
	return string(output)
}
