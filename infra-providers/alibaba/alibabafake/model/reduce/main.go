// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce writes operations.json: the operations in use with their parameters, out of the metadata that Alibaba Cloud
// publishes for its command line (github.com/aliyun/aliyun-openapi-meta, Apache-2.0). It takes a clone of that repository and
// the file to write; run it as `go run ./reduce CLONE operations.json`.
//
// The metadata has names, types and which parameters are required. The values that a parameter may have are in its description,
// as a list of words.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

const (
	source = "github.com/aliyun/aliyun-openapi-meta"
	commit = "2563691c22229a0b493606e11166b95896707095"
)

var operations = map[string][]string{
	"ecs": {
		"DeleteInstance", "DescribeDisks", "DescribeImages", "DescribeInstances", "DescribeInstanceTypes", "GetInstanceConsoleOutput", "ModifyDiskAttribute",
		"RebootInstance", "RunInstances", "TagResources",
	},
	"sts": {"AssumeRoleWithOIDC", "GetCallerIdentity"},
}

// published is a parameter in the metadata.
type published struct {
	Name          string      `json:"name"`
	Type          string      `json:"type"`
	Required      bool        `json:"required"`
	Description   string      `json:"description"`
	SubParameters []published `json:"sub_parameters"`
}

// parameter is what is kept of it.
type parameter struct {
	Type     string               `json:"type"`
	Required bool                 `json:"required,omitempty"`
	Values   []string             `json:"values,omitempty"`
	Members  map[string]parameter `json:"members,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "reduce: usage: reduce CLONE FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

func run(clone, to string) error {
	reduced := map[string]map[string]parameter{}
	for service, names := range operations {
		for _, name := range names {
			content, err := exec.Command("git", "-C", clone, "show", commit+":en-US/"+service+"/"+name+".json").Output() //nolint:gosec // it reads a clone
			if err != nil {
				return fmt.Errorf("reading %s: %w", name, err)
			}
			operation := struct{ Parameters []published }{}
			if err := json.Unmarshal(content, &operation); err != nil {
				return fmt.Errorf("reading %s: %w", name, err)
			}
			reduced[name] = reduce(operation.Parameters)
		}
	}
	if len(reduced["RunInstances"]) == 0 {
		return errors.New("the metadata has no parameters")
	}
	text, err := json.MarshalIndent(map[string]any{"source": source + "@" + commit, "license": "Apache-2.0", "operations": reduced}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o600)
}

func reduce(all []published) map[string]parameter {
	kept := map[string]parameter{}
	for _, p := range all {
		known := parameter{Type: p.Type, Required: p.Required}
		if p.Type == "String" {
			known.Values = values(p.Description)
		}
		if len(p.SubParameters) > 0 {
			known.Members = reduce(p.SubParameters)
		}
		kept[p.Name] = known
	}
	return kept
}

// value is an item of a list of values, with or without its meaning.
var value = regexp.MustCompile(`^\* +([A-Za-z_0-9]+)(:.*)?$`)

// values returns the words in a list that follows "Valid values:", and nothing if the list has anything else.
func values(description string) (all []string) {
	_, list, ok := strings.Cut(description, "Valid values:\n")
	if !ok {
		return nil
	}
	blank := true
	for line := range strings.SplitSeq(list, "\n") {
		item := value.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			blank = true
			continue
		case strings.HasPrefix(line, " "): // more about the item before
		case item != nil:
			all = append(all, item[1])
		case blank:
			return all
		default:
			return nil
		}
		blank = false
	}
	return all
}
