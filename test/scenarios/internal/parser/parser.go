// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package parser reads scenarios: folders with a README and numbered YAML files that describe what
// is given, what is done, and what is true then. It defines the keywords of a document and how a
// partial object is compared with a whole one. Package runner executes the steps.
package parser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// fileName matches the name of a scenario's file: its number and its part.
var fileName = regexp.MustCompile(`^\d\d-(given|when|then)\.yaml$`)

// Step is one file of a scenario.
type Step struct {
	// File is its name.
	File string
	// Then means that the documents must become true; otherwise they are executed.
	Then      bool
	Documents []Document
}

// Variables are the values that a document may use as ${name}.
type Variables map[string]string

// Load reads the scenario of a folder. The files of `use` are read from the given folder.
func Load(folder, given string, known Variables) ([]Step, error) {
	if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
		return nil, fmt.Errorf("reading the description of the scenario: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, file := range files {
		name := filepath.Base(file)
		part := fileName.FindStringSubmatch(name)
		if part == nil {
			return nil, fmt.Errorf("%s: a file is called NN-given.yaml, NN-when.yaml or NN-then.yaml", name)
		}
		documents, err := read(file, given, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		steps = append(steps, Step{File: name, Then: part[1] == "then", Documents: documents})
	}
	if len(steps) == 0 {
		return nil, errors.New("the scenario has no steps")
	}
	return steps, nil
}

// read reads the documents of a file, and in the place of each that uses another file, that
// file's.
func read(file, given string, known Variables) ([]Document, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text, err := expand(string(raw), known)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	var all []Document
	for i := 1; ; i++ {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(object) == 0 {
			continue
		}
		documents, err := parse(filepath.Dir(file), object, given, known)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		all = append(all, documents...)
	}
}

func parse(folder string, object map[string]any, given string, known Variables) ([]Document, error) {
	used, ok := object["use"].(string)
	if !ok {
		document, err := newDocument(object)
		if document.Answer != "" {
			document.Answer = filepath.Join(folder, document.Answer)
		}
		return []Document{document}, err
	}
	inner := Variables{}
	for name, value := range known {
		inner[name] = value
	}
	for name, value := range object {
		inner[name] = fmt.Sprint(value)
	}
	documents, err := read(filepath.Join(given, used+".yaml"), given, inner)
	if err != nil {
		return nil, fmt.Errorf("using %q: %w", used, err)
	}
	return documents, nil
}

// variable is ${name}, or ${name:-default}.
var variable = regexp.MustCompile(`\$\{(\w+)(:-([^}]*))?\}`)

func expand(text string, known Variables) (string, error) {
	var unknown []string
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		parts := variable.FindStringSubmatch(found)
		if value, ok := known[parts[1]]; ok {
			return value
		}
		if parts[2] == "" {
			unknown = append(unknown, found)
		}
		return parts[3]
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("nothing is known by the name %s", strings.Join(unknown, ", "))
	}
	return text, nil
}
