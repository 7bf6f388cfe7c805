// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce writes ec2.json: the operations in use and the shapes they need, out of the official
// description of EC2 in the module github.com/aws/aws-sdk-go (Apache-2.0). Run it by `go generate`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

const (
	source = "github.com/aws/aws-sdk-go@v1.55.8"
	file   = "models/apis/ec2/2016-11-15/api-2.json"
)

var operations = []string{
	"CreateTags", "DescribeImages", "DescribeInstances", "DescribeInstanceTypes", "DescribeSecurityGroups", "DescribeSubnets", "DescribeTags",
	"GetConsoleOutput", "RebootInstances", "RunInstances", "TerminateInstances",
}

type description struct {
	Operations map[string]json.RawMessage `json:"operations"`
	Shapes     map[string]json.RawMessage `json:"shapes"`
}

type reference struct {
	Shape string `json:"shape"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

func run(to string) error {
	full, err := read()
	if err != nil {
		return err
	}
	reduced := description{Operations: map[string]json.RawMessage{}, Shapes: map[string]json.RawMessage{}}
	for _, name := range operations {
		operation := struct {
			Input  reference `json:"input"`
			Output reference `json:"output"`
		}{}
		if err := json.Unmarshal(full.Operations[name], &operation); err != nil {
			return fmt.Errorf("operation %s: %w", name, err)
		}
		if reduced.Operations[name], err = json.Marshal(operation); err != nil {
			return err
		}
		for _, shape := range []string{operation.Input.Shape, operation.Output.Shape} {
			if shape == "" { // it answers with nothing
				continue
			}
			if err := follow(full, reduced, shape); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(to, write(reduced), 0o644) //nolint:gosec // it is source
}

// follow copies a shape and all that it refers to.
func follow(full, reduced description, name string) error {
	if _, done := reduced.Shapes[name]; done {
		return nil
	}
	shape := struct {
		Member  reference            `json:"member"`
		Members map[string]reference `json:"members"`
	}{}
	if err := json.Unmarshal(full.Shapes[name], &shape); err != nil {
		return fmt.Errorf("shape %s: %w", name, err)
	}
	reduced.Shapes[name] = full.Shapes[name]
	if name == "InstanceType" {
		// The cloud adds types more often than the description changes.
		reduced.Shapes[name] = json.RawMessage(`{"type":"string"}`)
	}
	next := slices.Collect(maps.Values(shape.Members))
	if shape.Member.Shape != "" {
		next = append(next, shape.Member)
	}
	for _, ref := range next {
		if err := follow(full, reduced, ref.Shape); err != nil {
			return err
		}
	}
	return nil
}

func read() (full description, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", source).Output()
	if err != nil {
		return full, fmt.Errorf("downloading %s: %w", source, err)
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(out, &module); err != nil {
		return full, err
	}
	content, err := os.ReadFile(filepath.Join(module.Dir, filepath.FromSlash(file)))
	if err != nil {
		return full, err
	}
	return full, json.Unmarshal(content, &full)
}

// write puts each operation and shape on a line of its own, so that a newer description can be compared.
func write(d description) []byte {
	out := &bytes.Buffer{}
	section := func(name string, entries map[string]json.RawMessage, end string) {
		fmt.Fprintf(out, "%q: {\n", name)
		for i, key := range slices.Sorted(maps.Keys(entries)) {
			if i > 0 {
				out.WriteString(",\n")
			}
			fmt.Fprintf(out, "%q: ", key)
			_ = json.Compact(out, entries[key]) // it was read as JSON
		}
		out.WriteString("\n}" + end)
	}
	fmt.Fprintf(out, "{\n\"source\": %q,\n\"license\": \"Apache-2.0\",\n", source+"/"+file)
	section("operations", d.Operations, ",\n")
	section("shapes", d.Shapes, "\n}\n")
	return out.Bytes()
}
