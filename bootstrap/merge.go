// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"drover.io/bootstrap/internal/preview"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

// mergeCommand is the first argument of the program that has it write what BootstrapConfigs become, instead of running the
// manager.
const mergeCommand = "merge"

const mergeUsage = `Usage: bootstrap merge --filename FILE [--filename FILE]...

Writes the specification that hosts get, for each BootstrapConfig and BootstrapConfigTemplate in the files, with the origin
of each value as a comment. The files also have the NodeProfile, and, where they matter, the Machine or MachineDeployment
that refers to the BootstrapConfig, and its Cluster. Secrets and servers are not read.

`

// merge writes what the BootstrapConfigs in files become with their NodeProfiles.
func merge(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := pflag.NewFlagSet("bootstrap "+mergeCommand, pflag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() { fmt.Fprint(stdout, mergeUsage+flags.FlagUsages()) }
	files := flags.StringArrayP("filename", "f", nil, "file with manifests in YAML or JSON; - is standard input")
	if err := flagcheck.Parse(flags, args); errors.Is(err, pflag.ErrHelp) {
		return manager.ErrDone
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 || len(*files) == 0 {
		return errors.New("name the files with --filename, and nothing else")
	}
	manifests := &preview.Manifests{}
	for _, name := range *files {
		if err := readManifests(manifests, name, stdin); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return preview.Write(stdout, manifests)
}

func readManifests(manifests *preview.Manifests, name string, stdin io.Reader) error {
	if name == "-" {
		return manifests.Read(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer func() { _ = file.Close() }()
	return manifests.Read(file)
}
