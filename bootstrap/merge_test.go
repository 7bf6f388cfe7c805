// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/runtime/manager"
)

// blocks are the code blocks of a section of a page.
func blocks(t *testing.T, page, section string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	after, _, _ = strings.Cut(after, "\n## ")
	var all []string
	for i, part := range strings.Split(after, "\n```") {
		if i%2 == 1 {
			_, code, _ := strings.Cut(part, "\n")
			all = append(all, code+"\n")
		}
	}
	return all
}

// TestDryRunOfTheDocumentation runs the command of the page, with its file.
func TestDryRunOfTheDocumentation(t *testing.T) {
	page := blocks(t, filepath.Join("..", "docs", "reference", "nodeprofile.md"), "Dry run")
	if len(page) != 3 {
		t.Fatalf("the section has %d blocks, want file, command and output", len(page))
	}
	command := strings.Fields(page[1])
	if len(command) < 2 || command[0] != "bootstrap" || command[1] != mergeCommand {
		t.Fatalf("the command is %q", command)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("fleet.yaml", []byte(page[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := merge(command[2:], streams{nil, &out, &out}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page[2], out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMergeReadsStandardInput(t *testing.T) {
	t.Parallel()
	config := "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: a}\nspec: {operatingSystem: ubuntu}\n"
	var out bytes.Buffer
	if err := merge([]string{"-f", "-"}, streams{strings.NewReader(config), &out, &out}); err != nil || !strings.Contains(out.String(), "operatingSystem: ubuntu # BootstrapConfig\n") {
		t.Errorf("err = %v, output:\n%s", err, out.String())
	}
}

func TestMergeNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":                {nil, "no file is named: name each with --filename, or standard input with --filename -"},
		"an argument":            {[]string{"a.yaml"}, `"a.yaml" is no flag: name each file with --filename`},
		"a flag of the manager":  {[]string{"--worker-count=1"}, "--worker-count is no flag: --help lists the flags"},
		"a file that is missing": {[]string{"-f", "testdata/none.yaml"}, "reading testdata/none.yaml: no such file or directory"},
		"an empty file":          {[]string{"-f", os.DevNull}, "reading /dev/null: there is no manifest in it"},
		"a file without a name":  {[]string{"--filename", ""}, `reading "": the name of the file is empty, - is standard input`},
		"a flag without a file":  {[]string{"--filename"}, "--filename has no value: give it as --filename=value"},
		"a directory":            {[]string{"-f", "."}, "reading .: is a directory: name each file in it"},
		"standard input twice":   {[]string{"-f", "-", "-f", "-"}, "reading standard input: document 1: is no manifest: an object has apiVersion, kind and metadata\n--filename names standard input twice"},
		"what is no manifest":    {[]string{"-f", "-"}, "reading standard input: document 1: is no manifest: an object has apiVersion, kind and metadata"},
	} {
		var out bytes.Buffer
		err := merge(c.args, streams{strings.NewReader("hello"), &out, &out})
		if err == nil || err.Error() != c.want || out.Len() > 0 {
			t.Errorf("%s: err = %v, want %s; output %q", name, err, c.want, out.String())
		}
	}
	var out bytes.Buffer
	if err := merge([]string{"--help"}, streams{nil, &out, &out}); !errors.Is(err, manager.ErrDone) || !strings.Contains(out.String(), "--filename") {
		t.Errorf("--help: err = %v, output %q", err, out.String())
	}
}
