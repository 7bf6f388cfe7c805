// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuickstart runs the quickstart unattended: the workflow succeeds and
// leaves no file behind; with a short timeout it ends with the reason.
func TestQuickstart(t *testing.T) {
	quickstart := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", quickstart, "../quickstart").CombinedOutput(); err != nil {
		t.Fatalf("building the quickstart: %v\n%s", err, out)
	}
	for name, test := range map[string]struct {
		args   []string
		status int
		output string
	}{
		"runs to the end":            {[]string{"--once", "--timeout=10m"}, 0, "nothing is left"},
		"reports what it waited for": {[]string{"--once", "--timeout=1ms"}, 1, "quickstart: "},
	} {
		t.Run(name, func(t *testing.T) {
			scratch := t.TempDir()
			command := exec.CommandContext(t.Context(), quickstart, test.args...)
			command.Dir = "."
			command.Env = append(os.Environ(), "TMPDIR="+scratch)
			out, _ := command.CombinedOutput()
			if got := command.ProcessState.ExitCode(); got != test.status || !strings.Contains(string(out), test.output) {
				t.Errorf("the exit status is %d, want %d and %q in the output:\n%s", got, test.status, test.output, out)
			}
			left, err := os.ReadDir(scratch)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range left {
				t.Errorf("it left %s behind", entry.Name())
			}
		})
	}
}
