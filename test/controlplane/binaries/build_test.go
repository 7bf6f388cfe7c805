// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goodMain is a program that prints the version with which it was linked, where
// Kubernetes looks for it.
const goodMain = `package main

import (
	"fmt"

	"k8s.io/component-base/version"
)

func main() { fmt.Println(version.Linked()) }
`

func TestBuildLinksTheVersion(t *testing.T) {
	t.Parallel()
	root := repository(t, "v3.6.1")
	output := build(t, root)
	if diff := cmp.Diff("compiling etcd v3.6.1 (1/1)\ncompiled etcd v3.6.1 in 0s\n", steady(output)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("v3.6.1 3 6 clean\n", run(t, root)); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
}

func TestBuildSkipsWhatIsUpToDate(t *testing.T) {
	t.Parallel()
	root := repository(t, "v3.6.1")
	build(t, root)
	if diff := cmp.Diff(Out(root)+" is up to date\n", build(t, root)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestBuildRepeats(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, root string){
		"after another version was pinned": func(t *testing.T, root string) {
			write(t, filepath.Join(root, moduleDir, "go.mod"), goMod("v3.6.2"))
		},
		"for other compiler settings": func(t *testing.T, _ string) {
			t.Setenv("GOFLAGS", "-mod=mod")
		},
		"after the program was lost": func(t *testing.T, root string) {
			if err := os.Remove(filepath.Join(Out(root), Etcd)); err != nil {
				t.Fatal(err)
			}
		},
		"after it was interrupted before the end": func(t *testing.T, root string) {
			if err := os.Remove(filepath.Join(Out(root), ".etcd.stamp")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, "v3.6.1")
			build(t, root)
			change(t, root)
			if output := build(t, root); !strings.Contains(output, "compiled etcd") {
				t.Errorf("it said %q", output)
			}
			run(t, root)
		})
	}
}

func TestBuildKeepsTheOldProgramWhenItFails(t *testing.T) {
	t.Parallel()
	root := repository(t, "v3.6.1")
	build(t, root)
	write(t, filepath.Join(root, moduleDir, "go.mod"), goMod("v3.6.2"))
	write(t, filepath.Join(root, moduleDir, "etcd", "main.go"), "package main\n\nfunc main() { undefined() }\n")

	err := Build(t.Context(), root, []string{Etcd}, scratch(t))
	expectError(t, err, []string{"compiling etcd", "undefined: undefined"})
	if diff := cmp.Diff("v3.6.1 3 6 clean\n", run(t, root)); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(Out(root), "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildRefusesAnUnknownProgram(t *testing.T) {
	t.Parallel()
	err := Build(t.Context(), t.TempDir(), []string{"kube-proxy"}, scratch(t))
	expectError(t, err, []string{"kube-proxy", Etcd, Kubectl, Kubelet})
}

func TestBuildWaitsForAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := lock(t.Context(), dir, newProgress(scratch(t)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, dir, newProgress(scratch(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("while another builds: got %v, want %v", err, context.Canceled)
	}
	unlock()
	again, err := lock(t.Context(), dir, newProgress(scratch(t)))
	if err != nil {
		t.Fatalf("after the other is done: %v", err)
	}
	again()
}

func TestFollowSeparatesProgressFromErrors(t *testing.T) {
	t.Parallel()
	b := &builder{progress: newProgress(scratch(t))}
	complaints := b.follow(strings.NewReader("go: downloading k8s.io/api v0.36.3\nk8s.io/api/core/v1\n# k8s.io/api/core/v1\ntypes.go:1:1: syntax error\nk8s.io/api/apps/v1\n"))
	if diff := cmp.Diff([]string{"# k8s.io/api/core/v1", "types.go:1:1: syntax error"}, complaints); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
	if b.progress.detail != "k8s.io/api/apps/v1" {
		t.Errorf("the progress line is %q", b.progress.detail)
	}
}

func TestFitKeepsOneLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		width int
		want  string
	}{
		"cuts what is too long":     {3, "añb"},
		"leaves what fits":          {10, "añbc"},
		"survives a width of zero":  {0, ""},
		"survives a negative width": {-1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fit("añbc", test.width); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// repository makes a repository whose etcd is a small program of its own.
func repository(t *testing.T, version string) string {
	t.Helper()
	root := t.TempDir()
	module := filepath.Join(root, filepath.FromSlash(moduleDir))
	write(t, filepath.Join(module, "go.mod"), goMod(version))
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "etcd", "go.mod"), "module go.etcd.io/etcd/server/v3\n\ngo 1.26.0\n")
	write(t, filepath.Join(module, "etcd", "main.go"), goodMain)
	write(t, filepath.Join(module, "component-base", "go.mod"), "module k8s.io/component-base\n\ngo 1.26.0\n")
	write(t, filepath.Join(module, "component-base", "version", "version.go"), `package version

var gitVersion, gitMajor, gitMinor, gitTreeState string

func Linked() string { return gitVersion + " " + gitMajor + " " + gitMinor + " " + gitTreeState }
`)
	return root
}

// goMod pins etcd at version, next to it on disk.
func goMod(version string) string {
	return `module pinned

go 1.26.0

require (
	go.etcd.io/etcd/server/v3 ` + version + `
	k8s.io/component-base v0.36.0
)

replace (
	go.etcd.io/etcd/server/v3 => ./etcd
	k8s.io/component-base => ./component-base
)
`
}

// build builds etcd of the repository at root and returns the output.
func build(t *testing.T, root string) string {
	t.Helper()
	w := scratch(t)
	if err := Build(t.Context(), root, []string{Etcd}, w); err != nil {
		t.Fatal(err)
	}
	output, err := os.ReadFile(w.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// run returns the output of the built program.
func run(t *testing.T, root string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(Out(root), Etcd)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// scratch returns a file to write to.
func scratch(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// steady replaces the time that a compilation took.
func steady(output string) string {
	before, _, found := strings.Cut(output, " in ")
	if !found {
		return output
	}
	return before + " in 0s\n"
}
