// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce writes compute.json: the methods in use and the schemas they need, out of Google's discovery document of
// Compute Engine, which is in the module google.golang.org/api (BSD-3-Clause). Run it by `go generate`.
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
	"strings"
)

const (
	module = "google.golang.org/api"
	file   = "compute/v1/compute-api.json"
)

var methods = []string{
	"disks.aggregatedList", "disks.delete", "disks.get", "disks.setLabels",
	"images.get", "images.getFromFamily",
	"instances.aggregatedList", "instances.delete", "instances.get", "instances.getSerialPortOutput", "instances.insert", "instances.reset",
	"instances.setDiskAutoDelete", "instances.setLabels",
	"machineTypes.get", "projects.get", "zoneOperations.get", "zoneOperations.list",
}

type document struct {
	Revision    string
	ServicePath string
	Parameters  map[string]*schema
	Resources   map[string]struct{ Methods map[string]*method }
	Schemas     map[string]*schema
}

type method struct {
	ID         string             `json:"id"`
	HTTPMethod string             `json:"httpMethod"`
	Path       string             `json:"path"`
	Parameters map[string]*schema `json:"parameters"`
	Request    *schema            `json:"request,omitempty"`
	Response   *schema            `json:"response,omitempty"`
}

// schema is the type of a value. Output is true for what only answers have.
type schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Minimum              string             `json:"minimum,omitempty"`
	Maximum              string             `json:"maximum,omitempty"`
	Location             string             `json:"location,omitempty"`
	Required             bool               `json:"required,omitempty"`
	Repeated             bool               `json:"repeated,omitempty"`
	Output               bool               `json:"output,omitempty"`
	RequiredBy           []string           `json:"requiredBy,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	AdditionalProperties *schema            `json:"additionalProperties,omitempty"`
}

// UnmarshalJSON reads also what the document says in other words: in annotations and at the beginning of descriptions.
func (s *schema) UnmarshalJSON(content []byte) error {
	type plain schema
	if err := json.Unmarshal(content, (*plain)(s)); err != nil {
		return err
	}
	said := struct {
		Description string
		ReadOnly    bool
		Annotations struct{ Required []string }
	}{}
	if err := json.Unmarshal(content, &said); err != nil {
		return err
	}
	s.Output = said.ReadOnly || strings.HasPrefix(said.Description, "[Output Only]") || strings.HasPrefix(said.Description, "Output only.")
	s.RequiredBy = said.Annotations.Required
	return nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

func run(to string) error {
	full, version, err := read()
	if err != nil {
		return err
	}
	kept := map[string]*method{}
	schemas := map[string]*schema{}
	for _, name := range methods {
		resource, verb, _ := strings.Cut(name, ".")
		found := full.Resources[resource].Methods[verb]
		if found == nil {
			return fmt.Errorf("there is no method %s", name)
		}
		kept[name] = found
		follow(full, schemas, found.Request)
		follow(full, schemas, found.Response)
	}
	out := &bytes.Buffer{}
	fmt.Fprintf(out, "{\n\"source\": %q,\n\"license\": \"BSD-3-Clause\",\n\"revision\": %q,\n\"servicePath\": %q,\n", module+"@"+version+"/"+file, full.Revision, full.ServicePath)
	section(out, "parameters", full.Parameters, ",\n")
	section(out, "methods", kept, ",\n")
	section(out, "schemas", schemas, "\n}\n")
	return os.WriteFile(to, out.Bytes(), 0o644) //nolint:gosec // it is source
}

// follow copies a schema and all that it refers to.
func follow(full document, kept map[string]*schema, from *schema) {
	if from == nil {
		return
	}
	if from.Ref != "" && kept[from.Ref] == nil {
		kept[from.Ref] = full.Schemas[from.Ref]
		follow(full, kept, full.Schemas[from.Ref])
	}
	for _, property := range from.Properties {
		follow(full, kept, property)
	}
	follow(full, kept, from.Items)
	follow(full, kept, from.AdditionalProperties)
}

func read() (full document, version string, err error) {
	out, err := exec.Command("go", "list", "-m", "-json", module).Output()
	if err != nil {
		return full, "", fmt.Errorf("finding %s: %w", module, err)
	}
	found := struct{ Dir, Version string }{}
	if err := json.Unmarshal(out, &found); err != nil {
		return full, "", err
	}
	content, err := os.ReadFile(filepath.Join(found.Dir, filepath.FromSlash(file)))
	if err != nil {
		return full, "", err
	}
	return full, found.Version, json.Unmarshal(content, &full)
}

// section puts each entry on a line of its own, so that a newer document can be compared.
func section[V any](out *bytes.Buffer, name string, entries map[string]V, end string) {
	fmt.Fprintf(out, "%q: {\n", name)
	for i, key := range slices.Sorted(maps.Keys(entries)) {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, _ := json.Marshal(entries[key]) // it was read as JSON
		fmt.Fprintf(out, "%q: %s", key, line)
	}
	out.WriteString("\n}" + end)
}
