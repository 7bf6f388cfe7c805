// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package specification checks bodies of requests and answers of the Resource Manager against Azure's published
// specification, so that a fake cannot accept or answer what Azure would not. It has the types that the azure driver sends and
// reads; reduce/main.go documents the source.
package specification

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:generate go run ./reduce types.json

//go:embed types.json
var content []byte

// Specification are the types of bodies, by module and name, such as compute.VirtualMachine.
type Specification struct {
	Types map[string]map[string]Field `json:"types"`
	Enums map[string][]string         `json:"enums"`
}

// Field is a field of a type. Type is a type of JSON, or the name of another type, or of an enumeration.
type Field struct {
	Type     string `json:"type"`
	List     bool   `json:"list"`
	Map      bool   `json:"map"`
	Required bool   `json:"required"`
	// ReadOnly is true for what only answers have.
	ReadOnly bool `json:"readOnly"`
}

// Load reads the specification.
func Load() (*Specification, error) {
	s := &Specification{}
	return s, json.Unmarshal(content, s)
}

// CheckRequest returns how the body of a request violates the specification.
func (s *Specification) CheckRequest(name string, body []byte) []string {
	return s.check(name, body, true)
}

// CheckAnswer returns how the body of an answer violates the specification. A name that begins with [] is that of a list.
func (s *Specification) CheckAnswer(name string, body []byte) []string {
	return s.check(name, body, false)
}

func (s *Specification) check(name string, body []byte, isRequest bool) []string {
	element, isList := strings.CutPrefix(name, "[]")
	if s.Types[element] == nil {
		return []string{"there is no type " + name}
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return []string{err.Error()}
	}
	c := checker{spec: s, isRequest: isRequest}
	c.field(element, Field{Type: element, List: isList}, value)
	slices.Sort(c.found)
	return c.found
}

type checker struct {
	spec      *Specification
	isRequest bool
	found     []string
}

func (c *checker) violate(path, format string, values ...any) {
	c.found = append(c.found, path+": "+fmt.Sprintf(format, values...))
}

// value checks a value of a type.
func (c *checker) value(path, of string, value any) {
	if fields := c.spec.Types[of]; fields != nil {
		c.object(path, fields, value)
		return
	}
	text, isText := value.(string)
	ok := true
	switch values := c.spec.Enums[of]; {
	case values != nil:
		ok = isText && slices.Contains(values, text)
	case of == "string" || of == "byte":
		ok = isText
	case of == "boolean":
		_, ok = value.(bool)
	case of == "number":
		_, ok = value.(json.Number)
	case of == "integer":
		number, isNumber := value.(json.Number)
		_, err := number.Int64()
		ok = isNumber && err == nil
	}
	if !ok {
		c.violate(path, "%v is no %s", value, of)
	}
}

func (c *checker) object(path string, fields map[string]Field, value any) {
	object, ok := value.(map[string]any)
	if !ok {
		c.violate(path, "it is no object")
		return
	}
	for name, field := range fields {
		if field.Required && object[name] == nil {
			c.violate(path+"."+name, "it is required")
		}
	}
	for name, value := range object {
		field, known := fields[name]
		switch {
		case !known:
			c.violate(path+"."+name, "there is no such field")
		case c.isRequest && field.ReadOnly:
			c.violate(path+"."+name, "only answers have it")
		case value != nil:
			c.field(path+"."+name, field, value)
		}
	}
}

// field checks a value of a field: one of its type, or several.
func (c *checker) field(path string, field Field, value any) {
	switch {
	case field.List:
		list, ok := value.([]any)
		if !ok {
			c.violate(path, "it is no list")
		}
		for i, one := range list {
			c.value(fmt.Sprintf("%s[%d]", path, i), field.Type, one)
		}
	case field.Map:
		entries, ok := value.(map[string]any)
		if !ok {
			c.violate(path, "it is no object")
		}
		for key, one := range entries {
			c.value(path+"."+key, field.Type, one)
		}
	default:
		c.value(path, field.Type, value)
	}
}
