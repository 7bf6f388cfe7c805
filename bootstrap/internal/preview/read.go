// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Read adds the objects of a file with manifests in YAML or JSON. The error has a line for each problem.
func (m *Manifests) Read(from io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(from))
	var problems []error
	objects := 0
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		count, errs := m.addDocument(document)
		objects += count
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("document %d: %s", n, strings.Join(strings.Fields(err.Error()), " ")))
		}
	}
	if objects == 0 && len(problems) == 0 {
		return errors.New("there is no manifest in it")
	}
	return errors.Join(problems...)
}

// addDocument adds the object of a document, or those of its list, and returns how many there are.
func (m *Manifests) addDocument(document []byte) (int, []error) {
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		return 0, []error{noYAML(document, err)}
	}
	var content any
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return 0, []error{err}
	}
	if content == nil {
		return 0, nil
	}
	object, is := content.(map[string]any)
	if !is {
		return 0, []error{errors.New("is no manifest: an object has apiVersion, kind and metadata")}
	}
	skipped := len(m.skipped)
	count, problems := m.addObject(object)
	if _, err := yaml.YAMLToJSONStrict(document); err != nil && len(m.skipped)-skipped < count {
		return count, []error{noYAML(document, err)} // a key twice, which is what the rest may come from
	}
	return count, problems
}

// noYAML is the error of a document that cannot be parsed.
func noYAML(document []byte, err error) error {
	if bytes.Contains(document, []byte("{{")) {
		return errors.New("is no YAML: it has {{, as a template of Helm: fill it in first, with helm template")
	}
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(strings.TrimSpace(text), strings.TrimSpace(prefix))
	}
	if strings.Contains(text, `key "kind" already set`) {
		text = "it has two objects: put a line with --- alone between them"
	}
	return errors.New("is no YAML: " + strings.TrimSpace(text))
}

func (m *Manifests) addObject(object map[string]any) (int, []error) {
	for _, field := range []string{"apiVersion", "kind"} {
		switch value, has := object[field]; {
		case !has || value == "" || value == nil:
			return 1, []error{fmt.Errorf("is no manifest: it has no %s", field)}
		default:
			if _, is := value.(string); !is {
				return 1, []error{fmt.Errorf("%s: must be of type string", field)}
			}
		}
	}
	items, has := object["items"]
	if kind, _ := object["kind"].(string); !has || !strings.HasSuffix(kind, "List") {
		return 1, m.add(object)
	}
	list, is := items.([]any)
	if !is {
		return 1, []error{errors.New("items: must be of type array")}
	}
	return m.addItems(list)
}

func (m *Manifests) addItems(list []any) (int, []error) {
	objects := 0
	var problems []error
	for i, item := range list {
		object, is := item.(map[string]any)
		if !is {
			problems = append(problems, fmt.Errorf("items[%d]: is no manifest: an object has apiVersion, kind and metadata", i))
			continue
		}
		count, errs := m.addObject(object)
		objects += count
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return objects, problems
}
