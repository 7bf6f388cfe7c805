// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"drover.io/bootstrap/internal/preview"
	"drover.io/runtime/crdvalidation"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

// mergeCommand is the first argument of the program that has it write what BootstrapConfigs become, instead of running the
// manager.
const mergeCommand = "merge"

const mergeUsage = `Usage: bootstrap merge --filename FILE [--filename FILE]...

Writes the specification that hosts get, for each BootstrapConfig and BootstrapConfigTemplate in the files, with the origin
of each value as a comment. The files also have the NodeProfile, and, where they matter, the Machine or MachineDeployment
that refers to the BootstrapConfig, and its Cluster. All objects of Drover and Cluster API are checked as the API server
does when they are created. Secrets and servers are not read.

`

// streams are those of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// merge writes what the BootstrapConfigs in files become with their NodeProfiles.
func merge(args []string, std streams) error {
	flags := pflag.NewFlagSet("bootstrap "+mergeCommand, pflag.ContinueOnError)
	flags.SetOutput(std.out)
	flags.Usage = func() { fmt.Fprint(std.out, mergeUsage+flags.FlagUsages()) }
	files := flags.StringArrayP("filename", "f", nil, "file with manifests in YAML or JSON; - is standard input")
	if err := flagcheck.Parse(flags, args); errors.Is(err, pflag.ErrHelp) {
		return manager.ErrDone
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag: name each file with --filename", flags.Arg(0))
	}
	if len(*files) == 0 {
		return errors.New("no file is named: name each with --filename, or standard input with --filename -")
	}
	kinds, err := crdvalidation.Load()
	if err != nil {
		return fmt.Errorf("reading the kinds of this program: %w", err)
	}
	manifests := preview.NewManifests(kinds)
	err = readAll(manifests, *files, std.in)
	if skipped := manifests.Skipped(); len(skipped) > 0 {
		fmt.Fprintf(std.err, "bootstrap: skipped objects of other projects, which are not checked: %s\n", strings.Join(skipped, ", "))
	}
	if err == nil {
		err = preview.Write(std.out, manifests)
	}
	if err != nil {
		return manager.LinesError{Err: err}
	}
	return nil
}

// readAll reads files. The error has a line for each problem in any of them.
func readAll(manifests *preview.Manifests, names []string, stdin io.Reader) error {
	var problems []error
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			problems = append(problems, fmt.Errorf("--filename names %s twice", title(name)))
			continue
		}
		err := read(manifests, name, stdin)
		if err == nil {
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			problems = append(problems, fmt.Errorf("reading %s: %s", title(name), line))
		}
	}
	return errors.Join(problems...)
}

// title is the name of a file in messages.
func title(name string) string {
	switch name {
	case "":
		return `""`
	case "-":
		return "standard input"
	}
	return name
}

func read(manifests *preview.Manifests, name string, stdin io.Reader) error {
	switch name {
	case "":
		return errors.New("the name of the file is empty, - is standard input")
	case "-":
		return manifests.Read(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return errors.New("is a directory: name each file in it")
	}
	return manifests.Read(file)
}
