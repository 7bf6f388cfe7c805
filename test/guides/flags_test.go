// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drover.io/test/controlplane/binaries"
)

// flag finds the flags that --help of a program prints.
var flag = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+)`)

// documented finds the flags that the page names.
var documented = regexp.MustCompile("`(--[\\w-]+)`")

func TestFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(root, "bin", "infra-*"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("found %d providers: %v; run make build", len(programs), err)
	}
	known := map[string]bool{}
	for _, program := range append(programs, filepath.Join(root, "bin", "machine-controller"), filepath.Join(root, "bin", "bootstrap")) {
		help, err := exec.CommandContext(t.Context(), program, "--help").Output()
		if err != nil {
			t.Fatalf("%s --help: %v", program, err)
		}
		for _, found := range flag.FindAllSubmatch(help, -1) {
			known[string(found[1])] = true
			if !strings.Contains(string(page), "`"+string(found[1])+"`") {
				t.Errorf("the page lacks %s of %s", found[1], filepath.Base(program))
			}
		}
	}
	var unknown []string
	for _, found := range documented.FindAllSubmatch(page, -1) {
		if name := string(found[1]); !known[name] && name != "--help" {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("no program has %q", slices.Compact(unknown))
	}
}
