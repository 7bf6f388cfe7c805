// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package program lists the programs that a release consists of, one manager each, and compiles them. It does not
// package them: that is the job of package image.
package program

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Program is one manager.
type Program struct {
	// Name is that of the file under bin, such as infra-aws.
	Name string
	// Module is the folder of its Go module below the root of the repository.
	Module string
	// Package is its main package, relative to the module.
	Package string
	// Title is one line that describes it.
	Title string
}

// ImageName is the name of the program's image without registry and tag.
func (p Program) ImageName() string {
	return "drover-" + p.Name
}

// List returns the programs of the repository: the two core managers, and one for each folder of infra-providers/cmd.
func List(root string) ([]Program, error) {
	programs := []Program{
		{Name: "machine-controller", Module: "machine-controller", Package: ".", Title: "Drover's controllers of Clusters, MachineDeployments, MachineSets and Machines"},
		{Name: "bootstrap", Module: "bootstrap", Package: ".", Title: "Drover's controller of BootstrapConfigs"},
	}
	folders, err := os.ReadDir(filepath.Join(root, "infra-providers", "cmd"))
	if err != nil {
		return nil, fmt.Errorf("listing infrastructure providers: %w", err)
	}
	for _, folder := range folders {
		if folder.IsDir() {
			programs = append(programs, Program{
				Name: "infra-" + folder.Name(), Module: "infra-providers", Package: "./cmd/" + folder.Name(),
				Title: "Drover's infrastructure provider " + folder.Name(),
			})
		}
	}
	return programs, nil
}

// Plugin returns the plugin of kubectl, which is in no image.
func Plugin() Program {
	return Program{Name: "kubectl-drover", Module: "kubectl-drover", Package: ".", Title: "Drover's plugin of kubectl"}
}

// Select returns the programs with the given names, in the order of the list. No name selects all of them.
func Select(programs []Program, names ...string) ([]Program, error) {
	if len(names) == 0 {
		return programs, nil
	}
	known := make([]string, len(programs))
	for i, p := range programs {
		known[i] = p.Name
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no program is called %q: there are %q", name, known)
		}
	}
	return slices.DeleteFunc(slices.Clone(programs), func(p Program) bool { return !slices.Contains(names, p.Name) }), nil
}

// Cloud is the name of the cloud whose infrastructure provider the program is.
func (p Program) Cloud() (cloud string, isProvider bool) {
	return strings.CutPrefix(p.Name, "infra-")
}
