// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery checks requests and answers of the API of Compute Engine against Google's discovery document, so that a
// fake cannot accept or answer what Compute Engine would not. It has the methods that the driver uses; reduce/main.go
// documents the source.
package discovery

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

//go:generate go run ./reduce compute.json

//go:embed compute.json
var content []byte

// Document is the description of methods.
type Document struct {
	ServicePath string             `json:"servicePath"`
	Parameters  map[string]*Schema `json:"parameters"`
	Methods     map[string]*Method `json:"methods"`
	Schemas     map[string]*Schema `json:"schemas"`
}

// Method is a method. Without a Request it has no body.
type Method struct {
	ID         string             `json:"id"`
	HTTPMethod string             `json:"httpMethod"`
	Path       string             `json:"path"`
	Parameters map[string]*Schema `json:"parameters"`
	Request    *Schema            `json:"request"`
	Response   *Schema            `json:"response"`

	pattern *regexp.Regexp
}

// Schema is the type of a value. Output is true for what only answers have, RequiredBy has the methods that require it.
type Schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Pattern              string             `json:"pattern"`
	Enum                 []string           `json:"enum"`
	Minimum              string             `json:"minimum"`
	Maximum              string             `json:"maximum"`
	Location             string             `json:"location"`
	Required             bool               `json:"required"`
	Repeated             bool               `json:"repeated"`
	Output               bool               `json:"output"`
	RequiredBy           []string           `json:"requiredBy"`
	Properties           map[string]*Schema `json:"properties"`
	Items                *Schema            `json:"items"`
	AdditionalProperties *Schema            `json:"additionalProperties"`
}

// Call is a valid request.
type Call struct {
	// Name is that of the method, such as instances.get.
	Name string
	// Parameters are those of the path and of the query.
	Parameters map[string]string
}

// Error is a violation of the document. Location is the field.
type Error struct{ Location, What string }

func (e *Error) Error() string { return e.Location + ": " + e.What }

func violation(location, format string, values ...any) error {
	return &Error{location, fmt.Sprintf(format, values...)}
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// Load reads the document.
func Load() (*Document, error) {
	d := &Document{}
	if err := json.Unmarshal(content, d); err != nil {
		return nil, err
	}
	for _, m := range d.Methods {
		pattern, err := regexp.Compile("^/" + d.ServicePath + pathParameter.ReplaceAllString(m.Path, "(?P<$1>[^/]+)") + "$")
		if err != nil {
			return nil, err
		}
		m.pattern = pattern
	}
	return d, nil
}

// CheckRequest checks a request and returns its method and parameters.
func (d *Document) CheckRequest(httpMethod, path string, query url.Values, body []byte) (Call, error) {
	for name, m := range d.Methods {
		parts := m.pattern.FindStringSubmatch(path)
		if m.HTTPMethod != httpMethod || parts == nil {
			continue
		}
		call := Call{Name: name, Parameters: map[string]string{}}
		for i, parameter := range m.pattern.SubexpNames() {
			if parameter != "" {
				call.Parameters[parameter] = parts[i]
			}
		}
		for parameter, values := range query {
			if len(values) != 1 {
				return call, violation(parameter, "it is given more than once")
			}
			call.Parameters[parameter] = values[0]
		}
		if err := d.checkParameters(m, call.Parameters); err != nil {
			return call, err
		}
		return call, d.checkBody(m, body)
	}
	return Call{}, violation(path, "there is no such method")
}

func (d *Document) checkParameters(m *Method, given map[string]string) error {
	for name, value := range given {
		schema := m.Parameters[name]
		if schema == nil {
			schema = d.Parameters[name]
		}
		if schema == nil {
			return violation(name, "there is no such parameter")
		}
		if err := checkText(schema, name, value); err != nil {
			return err
		}
	}
	for name, schema := range m.Parameters {
		if _, ok := given[name]; schema.Required && !ok {
			return violation(name, "it is required")
		}
	}
	return nil
}

func (d *Document) checkBody(m *Method, body []byte) error {
	if m.Request == nil {
		if len(body) > 0 {
			return violation("body", "the method has none")
		}
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return violation("body", "%v", err)
	}
	return d.check(m.Request, "resource", value, m.ID)
}

// CheckAnswer checks the answer of a method.
func (d *Document) CheckAnswer(name string, body []byte) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return d.check(d.Methods[name].Response, name, value, "")
}

// check checks a value. For an answer the method is empty.
func (d *Document) check(schema *Schema, at string, value any, method string) error {
	if schema.Ref != "" {
		schema = d.Schemas[schema.Ref]
	}
	switch schema.Type {
	case "object":
		return d.checkObject(schema, at, value, method)
	case "array":
		items, ok := value.([]any)
		if !ok {
			return violation(at, "it is a list")
		}
		for i, item := range items {
			if err := d.check(schema.Items, fmt.Sprintf("%s[%d]", at, i), item, method); err != nil {
				return err
			}
		}
		return nil
	case "boolean":
		if _, ok := value.(bool); !ok {
			return violation(at, "%v is neither true nor false", value)
		}
		return nil
	case "integer", "number":
		number, ok := value.(float64)
		if !ok {
			return violation(at, "%v is no number", value)
		}
		return checkText(schema, at, strconv.FormatFloat(number, 'f', -1, 64))
	default:
		text, ok := value.(string)
		if !ok {
			return violation(at, "%v is no text", value)
		}
		return checkText(schema, at, text)
	}
}

func (d *Document) checkObject(schema *Schema, at string, value any, method string) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return violation(at, "it is an object")
	}
	for name, field := range fields {
		property := schema.Properties[name]
		switch {
		case property == nil && schema.AdditionalProperties == nil:
			return violation(at+"."+name, "there is no such field")
		case property == nil:
			property = schema.AdditionalProperties
		case method != "" && property.Output:
			return violation(at+"."+name, "only answers have it")
		}
		if err := d.check(property, at+"."+name, field, method); err != nil {
			return err
		}
	}
	for name, property := range schema.Properties {
		if _, ok := fields[name]; !ok && method != "" && slices.Contains(property.RequiredBy, method) {
			return violation(at+"."+name, "it is required")
		}
	}
	return nil
}

// checkText checks a value that is no list and no object.
func checkText(schema *Schema, at, value string) error {
	switch {
	case schema.Type == "boolean" && value != "true" && value != "false":
		return violation(at, "%q is neither true nor false", value)
	case len(schema.Enum) > 0 && !slices.Contains(schema.Enum, value):
		return violation(at, "%q is not one of the values that exist", value)
	case schema.Pattern != "" && !regexp.MustCompile("^(?:"+schema.Pattern+")$").MatchString(value):
		return violation(at, "%q does not match %s", value, schema.Pattern)
	}
	return checkFormat(schema, at, value)
}

func checkFormat(schema *Schema, at, value string) (err error) {
	number := int64(0)
	switch {
	case schema.Format == "int32" || schema.Format == "int64":
		number, err = strconv.ParseInt(value, 10, map[string]int{"int32": 32, "int64": 64}[schema.Format])
	case schema.Format == "uint32" || schema.Format == "uint64":
		_, err = strconv.ParseUint(value, 10, map[string]int{"uint32": 32, "uint64": 64}[schema.Format])
	case schema.Format == "date-time":
		_, err = time.Parse(time.RFC3339, value)
	case schema.Type == "integer":
		number, err = strconv.ParseInt(value, 10, 64)
	}
	if err != nil {
		return violation(at, "%q is no %s", value, schema.Format)
	}
	for bound, outside := range map[string]func(int64) bool{
		schema.Minimum: func(limit int64) bool { return number < limit },
		schema.Maximum: func(limit int64) bool { return number > limit },
	} {
		if limit, err := strconv.ParseInt(bound, 10, 64); err == nil && outside(limit) {
			return violation(at, "%q is out of range", value)
		}
	}
	return nil
}
