// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package model checks requests and answers of the EC2 query protocol against the official description of
// EC2, so that a fake cannot accept or answer what EC2 would not. It has the operations that the driver uses;
// reduce/main.go documents the source of the description.
package model

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:generate go run ./reduce ec2.json

//go:embed ec2.json
var content []byte

// Model is a description of operations.
type Model struct {
	Operations map[string]Operation `json:"operations"`
	Shapes     map[string]*Shape    `json:"shapes"`
}

// Operation names the shapes of a request and its answer. An answer without a shape is empty.
type Operation struct {
	Input  Reference `json:"input"`
	Output Reference `json:"output"`
}

// Reference is a use of a shape.
type Reference struct {
	Shape        string `json:"shape"`
	LocationName string `json:"locationName"`
	QueryName    string `json:"queryName"`
}

// Shape is the type of a value.
type Shape struct {
	Type     string               `json:"type"`
	Members  map[string]Reference `json:"members"`
	Member   Reference            `json:"member"`
	Required []string             `json:"required"`
	Enum     []string             `json:"enum"`
	Min      *int                 `json:"min"`
	Max      *int                 `json:"max"`
}

// Error is a violation of the description, under the code that EC2 gives it.
type Error struct {
	Code string
	Path string
	What string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Code, e.Path, e.What) }

// Load reads the description.
func Load() (*Model, error) {
	m := &Model{}
	return m, json.Unmarshal(content, m)
}

// CheckRequest checks the parameters of a request.
func (m *Model) CheckRequest(action string, parameters url.Values) error {
	operation, ok := m.Operations[action]
	if !ok {
		return &Error{"InvalidAction", action, "the action is not valid for this web service"}
	}
	tree, err := parseTree(parameters)
	if err != nil {
		return err
	}
	return m.check(operation.Input, "", tree)
}

// node is a parameter with those whose names begin with its own.
type node struct {
	value    *string
	children map[string]*node
}

// parseTree returns the tree of parameters that dots and numbers in their names describe.
func parseTree(parameters url.Values) (*node, error) {
	root := &node{children: map[string]*node{}}
	for name, values := range parameters {
		if name == "Action" || name == "Version" {
			continue
		}
		if len(values) != 1 {
			return nil, &Error{"InvalidParameterCombination", name, "it is given more than once"}
		}
		at := root
		for part := range strings.SplitSeq(name, ".") {
			if at.children[part] == nil {
				at.children[part] = &node{children: map[string]*node{}}
			}
			at = at.children[part]
		}
		at.value = &values[0]
	}
	return root, nil
}

func (m *Model) check(ref Reference, path string, at *node) error {
	shape := m.Shapes[ref.Shape]
	switch shape.Type {
	case "structure":
		return m.checkStructure(shape, path, at)
	case "list":
		return m.checkList(shape, path, at)
	default:
		if at.value == nil || len(at.children) > 0 {
			return &Error{"InvalidParameterValue", path, "it has to be one value"}
		}
		return checkValue(shape, path, *at.value)
	}
}

func (m *Model) checkStructure(shape *Shape, path string, at *node) error {
	if at.value != nil {
		return &Error{"InvalidParameterValue", path, "it is a structure and has no value of its own"}
	}
	known := map[string]Reference{}
	for name, ref := range shape.Members {
		known[ref.parameter(name)] = ref
	}
	for name, child := range at.children {
		ref, ok := known[name]
		if !ok {
			return &Error{"UnknownParameter", join(path, name), "it is not recognised"}
		}
		if err := m.check(ref, join(path, name), child); err != nil {
			return err
		}
	}
	for _, name := range shape.Required {
		if parameter := shape.Members[name].parameter(name); at.children[parameter] == nil {
			return &Error{"MissingParameter", join(path, parameter), "it is required"}
		}
	}
	return nil
}

// checkList requires numbers from 1 without a gap directly after the list's name: EC2's lists are flat.
func (m *Model) checkList(shape *Shape, path string, at *node) error {
	for n := 1; n <= len(at.children); n++ {
		item := at.children[strconv.Itoa(n)]
		if item == nil {
			return &Error{"InvalidParameter", join(path, strconv.Itoa(n)), "the numbers of a list begin with 1 and have no gaps"}
		}
		if err := m.check(shape.Member, join(path, strconv.Itoa(n)), item); err != nil {
			return err
		}
	}
	if shape.Max != nil && len(at.children) > *shape.Max || shape.Min != nil && len(at.children) < *shape.Min {
		return &Error{"InvalidParameterValue", path, "the list has too few or too many items"}
	}
	return nil
}

func checkValue(shape *Shape, path, value string) error {
	var err error
	switch shape.Type {
	case "integer", "long":
		var number int
		if number, err = strconv.Atoi(value); err == nil && (shape.Max != nil && number > *shape.Max || shape.Min != nil && number < *shape.Min) {
			err = fmt.Errorf("%d is out of range", number)
		}
	case "double", "float":
		_, err = strconv.ParseFloat(value, 64)
	case "boolean":
		if value != "true" && value != "false" {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	case "timestamp":
		_, err = time.Parse(time.RFC3339, value)
	case "string":
		if len(shape.Enum) > 0 && !slices.Contains(shape.Enum, value) {
			err = fmt.Errorf("%q is not one of the values there are", value)
		}
	}
	if err != nil {
		return &Error{"InvalidParameterValue", path, err.Error()}
	}
	return nil
}

// parameter is the name of a member in a request of this protocol.
func (r Reference) parameter(member string) string {
	if r.QueryName != "" {
		return r.QueryName
	}
	if r.LocationName != "" {
		return strings.ToUpper(r.LocationName[:1]) + r.LocationName[1:]
	}
	return member
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
