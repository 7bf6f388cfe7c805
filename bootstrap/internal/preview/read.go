// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
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
			problems = append(problems, fmt.Errorf("document %d: %s%s", n, strings.Join(strings.Fields(err.Error()), " "), templateHint(err)))
		}
	}
	if objects == 0 && len(problems) == 0 {
		return errors.New("there is no manifest in it")
	}
	return errors.Join(problems...)
}

// templateHint is for what is wrong since it has a variable in it.
func templateHint(err error) string {
	if strings.Contains(err.Error(), "${") {
		return ": fill in the variables first, for a template of clusterctl with clusterctl generate"
	}
	return ""
}

// addDocument adds the object of a document, or those of its list, and returns how many there are.
func (m *Manifests) addDocument(document []byte) (int, []error) {
	if several := jsonObjects(document); len(several) > 1 {
		return m.addItems(several)
	}
	raw, err := yaml.YAMLToJSON(document)
	if err == nil {
		err = checkEnd(document)
	}
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

// jsonObjects are those of a file in JSON, which may have one after the other; none if it is another file.
func jsonObjects(document []byte) []any {
	var all []any
	for decoder := json.NewDecoder(bytes.NewReader(document)); ; {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			return nil
		}
		var object any
		if err := utiljson.Unmarshal(raw, &object); err != nil {
			return nil
		}
		all = append(all, object)
	}
}

// checkEnd fails if there is something after the end of a document, such as after a bracket, which a parser does not read.
func checkEnd(document []byte) error {
	var node yamlv3.Node
	decoder := yamlv3.NewDecoder(bytes.NewReader(document))
	if err := decoder.Decode(&node); err != nil {
		return nil //nolint:nilerr // empty, or what the parser that counts has accepted
	}
	if err := decoder.Decode(&node); !errors.Is(err, io.EOF) {
		return errors.New("there is something after its end")
	}
	return nil
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
	if _, err := schema.ParseGroupVersion(object["apiVersion"].(string)); err != nil {
		return 1, []error{fmt.Errorf("apiVersion: must be a group and a version, as in %s, or a version: %q", bootstrapv1.GroupVersion, object["apiVersion"])}
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
