// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drover.io/test/controlplane/binaries"
)

// flagLine matches a flag that --help of a program prints, with its usage.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+)(.*)$`)

// defaultValue matches the default at the end of a usage.
var defaultValue = regexp.MustCompile(`\(default "?([^")]*)"?\)$`)

// quotedFlag matches a flag in the page.
var quotedFlag = regexp.MustCompile("`(--?[\\w-]+)`")

// literal matches a default that a program would print.
var literal = regexp.MustCompile(`^(-?\d[\w.]*|true|[:/].*)$`)

// zero matches the defaults that --help does not print.
var zero = regexp.MustCompile(`^(0|false)$`)

// TestFlagsPage compares docs/reference/flags.md with --help of each program: flags, sections and defaults.
func TestFlagsPage(t *testing.T) {
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
	for _, path := range append(programs, filepath.Join(root, "bin", "machine-controller"), filepath.Join(root, "bin", "bootstrap")) {
		program := filepath.Base(path)
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			help, err := exec.CommandContext(t.Context(), path, "--help").Output()
			if err != nil {
				t.Fatalf("--help: %v", err)
			}
			compareFlags(t, documentedFlags(page, program), printedFlags(help))
		})
	}
}

func compareFlags(t *testing.T, documented, printed map[string]string) {
	t.Helper()
	for name, want := range printed {
		got, found := documented[name]
		switch {
		case !found:
			t.Errorf("the page lacks %s in a section for this program", name)
		case name == "--host-name": // the default is the name of the host
		case want == "" && literal.MatchString(got) && !zero.MatchString(got), want != "" && want != got:
			t.Errorf("the default of %s is %q, the page has %q", name, want, got)
		}
	}
	for name := range documented {
		if _, found := printed[name]; !found {
			t.Errorf("the page has %s in a section for this program, which does not have it", name)
		}
	}
}

// printedFlags returns the defaults of the flags by name.
func printedFlags(help []byte) map[string]string {
	flags := map[string]string{}
	for _, found := range flagLine.FindAllSubmatch(help, -1) {
		value := ""
		if match := defaultValue.FindSubmatch(bytes.TrimSpace(found[2])); match != nil {
			value = string(match[1])
		}
		flags[string(found[1])] = shortDuration(value)
	}
	delete(flags, "--help")
	return flags
}

// shortDuration returns a duration without the parts that are 0, as the page has it.
func shortDuration(value string) string {
	if !regexp.MustCompile(`^(\d+h)?(\d+m)?\d+s$`).MatchString(value) {
		return value
	}
	value = strings.TrimSuffix(value, "m0s")
	if value != "" && !strings.HasSuffix(value, "s") {
		value += "m"
	}
	return strings.TrimSuffix(value, "h0m") + strings.Repeat("h", strings.Count(value, "h0m"))
}

// documentedFlags returns the defaults that the page has for the flags of a program.
func documentedFlags(page []byte, program string) map[string]string {
	sections := []string{"All managers", program}
	provider := strings.HasPrefix(program, "infra-")
	if provider {
		sections = append(sections, "All providers", "Single providers")
	}
	flags := map[string]string{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if !slices.Contains(sections, title) {
			continue
		}
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
			if title == "Single providers" {
				if !strings.Contains(cells[0], "`"+program+"`") {
					continue
				}
				cells = cells[1:]
			}
			if len(cells) != 3 {
				continue
			}
			addRow(flags, cells[0], cells[1])
		}
	}
	return flags
}

// addRow adds the flags of a row. A row with several flags has as many defaults, or one for all.
func addRow(flags map[string]string, names, defaults string) {
	values := strings.Split(defaults, ", ")
	for i, found := range quotedFlag.FindAllStringSubmatch(names, -1) {
		if !strings.HasPrefix(found[1], "--") {
			continue
		}
		value := defaults
		if strings.Count(names, "`--") == len(values) && len(values) > 1 {
			value = values[i]
		}
		flags[found[1]] = cmp.Or(strings.Trim(strings.TrimSpace(value), "`"), "none")
	}
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"10m0s": "10m", "1h0m0s": "1h", "1m0s": "1m", "15s": "15s", "1h30m0s": "1h30m", ":8085": ":8085", "20": "20"} {
		if got := shortDuration(value); got != want {
			t.Errorf("shortDuration(%q) is %q, want %q", value, got, want)
		}
	}
}
