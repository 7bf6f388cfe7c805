// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce reduces the OpenAPI description of the DigitalOcean API to the requests that Drover makes and to their
// answers, without texts, and makes requests strict: one with an unknown field is invalid. It reads a copy of the repository
// digitalocean/openapi, which has one file per part, and writes openapi.json:
//
//	go run ./digitalocean/digitaloceanfake/reduce openapi > digitalocean/digitaloceanfake/openapi.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// operations are the requests in use, by path and method, with the status of their answer.
var operations = map[string]map[string]string{
	"/v2/account":                           {"get": "200"},
	"/v2/account/keys":                      {"get": "200", "post": "201"},
	"/v2/account/keys/{ssh_key_identifier}": {"get": "200", "put": "200", "delete": "204"},
	"/v2/droplets":                          {"get": "200", "post": "202"},
	"/v2/droplets/{droplet_id}":             {"get": "200", "delete": "204"},
	"/v2/droplets/{droplet_id}/actions":     {"post": "201"},
	"/v2/images":                            {"get": "200"},
	"/v2/images/{image_id}":                 {"get": "200"},
	"/v2/regions":                           {"get": "200"},
	"/v2/reserved_ips":                      {"get": "200", "post": "202"},
	"/v2/reserved_ips/{reserved_ip}":        {"get": "200", "delete": "204"},
	"/v2/sizes":                             {"get": "200"},
	"/v2/tags":                              {"post": "201"},
	"/v2/tags/{tag_id}":                     {"get": "200", "delete": "204"},
	"/v2/tags/{tag_id}/resources":           {"post": "204", "delete": "204"},
	"/v2/volumes":                           {"get": "200", "post": "201"},
	"/v2/volumes/{volume_id}":               {"get": "200", "delete": "204"},
	"/v2/volumes/{volume_id}/actions":       {"post": "202"},
	"/v2/vpcs/{vpc_id}":                     {"get": "200"},
}

type object = map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, a copy of the repository digitalocean/openapi; got %q", args)
	}
	root := filepath.Join(args[0], "specification", "DigitalOcean-public.v2.yaml")
	l := &loader{files: map[string]any{}}
	full, err := l.load(root)
	if err != nil {
		return err
	}
	described, ok := full.(object)["paths"].(object)
	if !ok {
		return errors.New("the description has no paths")
	}
	paths := object{}
	for path, methods := range operations {
		kept := object{}
		for method, status := range methods {
			item, ok := described[path].(object)
			if !ok {
				return fmt.Errorf("the description has no path %s", path)
			}
			resolved, err := l.resolve(root, item[method], 0)
			if err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
			if kept[method], err = reduce(resolved, status); err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
		paths[path] = kept
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(object{
		"openapi": "3.0.0",
		"info": object{
			"title":       "DigitalOcean API",
			"version":     "2.0",
			"description": "Reduced by digitaloceanfake/reduce from https://github.com/digitalocean/openapi at commit 7c1300c4, under the Apache License 2.0, Copyright DigitalOcean.",
		},
		"paths": paths,
	})
}

// reduce keeps the parameters, the body and one answer of an operation.
func reduce(operation any, status string) (object, error) {
	from, ok := operation.(object)
	if !ok {
		return nil, errors.New("not described")
	}
	responses, _ := from["responses"].(object)
	answer, ok := responses[status].(object)
	if !ok {
		return nil, fmt.Errorf("no answer %s", status)
	}
	described := object{"description": "done"}
	if content, ok := strip(answer["content"]).(object); ok {
		of := content["application/json"].(object)
		of["schema"] = merge(of["schema"])
		described["content"] = content
	}
	kept := object{"responses": object{status: described, "default": object{"description": "any"}}}
	if parameters, ok := strip(from["parameters"]).([]any); ok {
		kept["parameters"] = parameters
	}
	if body, ok := strip(from["requestBody"]).(object); ok {
		content := body["content"].(object)["application/json"].(object)
		schema := closed(merge(content["schema"]))
		amend(schema)
		content["schema"] = schema
		body["required"] = true
		kept["requestBody"] = body
	}
	return kept, nil
}

// amend permits what the cloud's own SDK sends and the description lacks: a volume of a new Droplet as an object with its ID.
func amend(schema any) {
	choices, _ := schema.(object)["oneOf"].([]any)
	for _, choice := range choices {
		properties, _ := choice.(object)["properties"].(object)
		if volumes, ok := properties["volumes"].(object); ok {
			volumes["items"] = object{"oneOf": []any{
				object{"type": "string"},
				object{"type": "object", "properties": object{"id": object{"type": "string"}}, "required": []any{"id"}, "additionalProperties": false},
			}}
		}
	}
}

// loader reads the files of the description.
type loader struct{ files map[string]any }

func (l *loader) load(path string) (any, error) {
	if known, ok := l.files[path]; ok {
		return known, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var value any
	if err := yaml.Unmarshal(content, &value); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.files[path] = value
	return value, nil
}

// maxDepth ends a reference to itself.
const maxDepth = 60

// resolve replaces all references of a value in a file.
func (l *loader) resolve(file string, value any, depth int) (any, error) {
	if depth > maxDepth {
		return object{}, nil
	}
	switch value := value.(type) {
	case []any:
		all := make([]any, len(value))
		for i := range value {
			var err error
			if all[i], err = l.resolve(file, value[i], depth+1); err != nil {
				return nil, err
			}
		}
		return all, nil
	case object:
		if ref, ok := value["$ref"].(string); ok {
			return l.follow(file, ref, depth)
		}
		all := object{}
		for key, inner := range value {
			if key == "examples" || key == "x-codeSamples" || key == "headers" || key == "links" && depth < 4 {
				continue
			}
			var err error
			if all[key], err = l.resolve(file, inner, depth+1); err != nil {
				return nil, err
			}
		}
		return all, nil
	default:
		return value, nil
	}
}

// follow returns what a reference names, a file and a path in it.
func (l *loader) follow(file, ref string, depth int) (any, error) {
	name, within, _ := strings.Cut(ref, "#")
	target := file
	if name != "" {
		target = filepath.Join(filepath.Dir(file), name)
	}
	found, err := l.load(target)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(strings.Trim(within, "/"), "/") {
		if part == "" {
			continue
		}
		next, ok := found.(object)
		if !ok || next[part] == nil {
			return nil, fmt.Errorf("%s has no %s", target, within)
		}
		found = next[part]
	}
	return l.resolve(target, found, depth+1)
}

// merge joins the parts of allOf, so that the result can be closed for other fields. anyOf and oneOf keep their choices.
func merge(value any) any {
	schema, ok := value.(object)
	if !ok {
		return value
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		choices, _ := schema[choice].([]any)
		for i := range choices {
			choices[i] = merge(choices[i])
		}
	}
	for key, inner := range schema {
		switch key {
		case "properties":
			for name, property := range inner.(object) {
				inner.(object)[name] = merge(property)
			}
		case "items":
			schema[key] = merge(inner)
		}
	}
	parts, _ := schema["allOf"].([]any)
	if parts == nil {
		return schema
	}
	delete(schema, "allOf")
	for _, part := range parts {
		part, ok := merge(part).(object)
		if !ok {
			continue
		}
		for key, inner := range part {
			switch have := schema[key].(type) {
			case object:
				for name, property := range inner.(object) {
					have[name] = property
				}
			case []any:
				schema[key] = append(have, inner.([]any)...)
			default:
				schema[key] = inner
			}
		}
	}
	return schema
}

// closed permits only the properties of the description.
func closed(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = closed(value[i])
		}
		return value
	case object:
		for key, inner := range value {
			value[key] = closed(inner)
		}
		if _, ok := value["properties"].(object); ok {
			value["additionalProperties"] = false
		}
		return value
	default:
		return value
	}
}

// strip removes texts, examples and what has no meaning for a check.
func strip(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = strip(value[i])
		}
		return value
	case object:
		for key, inner := range value {
			// A property may be named description too; then it is not a text.
			_, property := inner.(object)
			switch {
			case key == "example" || key == "examples", key == "discriminator", strings.HasPrefix(key, "x-"),
				!property && (key == "description" || key == "title" || key == "deprecated" || key == "readOnly"):
				delete(value, key)
			default:
				value[key] = strip(inner)
			}
		}
		unquote(value)
		return value
	default:
		return value
	}
}

// unquote restores texts that YAML reads as a truth value, such as off.
func unquote(schema object) {
	choices, _ := schema["enum"].([]any)
	for i := range choices {
		if choices[i] == false && schema["type"] == "string" {
			choices[i] = "off"
		}
	}
}
