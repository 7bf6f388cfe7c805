// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce reduces the description of the metal-api, which ships with the module metal-go, to the operations that Drover
// calls, without texts, and makes it strict: a field that is not described is invalid. From the folder of the module
// drover.io/infra-providers:
//
//	go run ./metalstack/metalstackfake/reduce > metalstack/metalstackfake/metal-api.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// operations are those in use.
var operations = []string{
	"allocateIP", "allocateMachine", "findIP", "findIPs", "findLatestImage", "findMachine", "findMachines", "findNetwork", "findPartition",
	"findProject", "findSize", "freeIP", "freeMachine", "getFilesystemLayout", "machineReset", "partitionCapacity", "updateIP", "updateMachine",
}

type object = map[string]any

func main() {
	full, err := read()
	var reduced []byte
	if err == nil {
		reduced, err = reduce(full)
	}
	if err == nil {
		_, err = os.Stdout.Write(reduced)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

// read returns the description of the module's version in use.
func read() ([]byte, error) {
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/metal-stack/metal-go").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the module: %w", err)
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "metal-api.json"))
}

func reduce(full []byte) ([]byte, error) {
	var from struct {
		Paths       map[string]map[string]object `json:"paths"`
		Definitions map[string]object            `json:"definitions"`
	}
	if err := json.Unmarshal(full, &from); err != nil {
		return nil, err
	}
	paths, found := map[string]object{}, 0
	definitions := object{}
	for path, methods := range from.Paths {
		for method, operation := range methods {
			if name, _ := operation["operationId"].(string); !slices.Contains(operations, name) {
				continue
			}
			found++
			if paths[path] == nil {
				paths[path] = object{}
			}
			kept := strip(operation).(object)
			paths[path][method] = kept
			collect(kept, from.Definitions, definitions)
		}
	}
	if found != len(operations) {
		return nil, fmt.Errorf("%d of %d operations are described", found, len(operations))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", " ")
	err := encoder.Encode(object{
		"swagger": "2.0", "basePath": "/", "paths": paths, "definitions": definitions,
		"info": object{"title": "metal-api", "version": "v1", "description": "Reduced by metalstackfake/reduce from https://github.com/metal-stack/metal-go, under the MIT License, Copyright metal-stack authors."},
	})
	return out.Bytes(), err
}

// collect adds the definitions that something refers to.
func collect(of any, from map[string]object, into object) {
	switch of := of.(type) {
	case object:
		if name, ok := of["$ref"].(string); ok {
			name = strings.TrimPrefix(name, "#/definitions/")
			if _, known := into[name]; !known {
				kept := strip(from[name]).(object)
				if _, described := kept["properties"]; described {
					kept["type"], kept["additionalProperties"] = "object", false
				}
				into[name] = kept
				collect(kept, from, into)
			}
		}
		for _, part := range of {
			collect(part, from, into)
		}
	case []any:
		for _, part := range of {
			collect(part, from, into)
		}
	}
}

// strip removes texts. A description of an answer is required.
func strip(of any) any {
	switch of := of.(type) {
	case object:
		kept := object{}
		_, answer := of["schema"]
		_, operation := of["operationId"]
		for key, part := range of {
			_, text := part.(string)
			switch {
			case text && key == "description" && answer && of["in"] == nil:
				kept[key] = "any"
				continue
			case text && (key == "description" || key == "summary"), key == "x-go-type", key == "tags" && operation:
				continue
			}
			kept[key] = strip(part)
		}
		return kept
	case []any:
		kept := make([]any, 0, len(of))
		for _, part := range of {
			kept = append(kept, strip(part))
		}
		return kept
	default:
		return of
	}
}
