// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package validate checks manifests as the API server would when they are created, without one: fields, types and the rules
// of the CustomResourceDefinitions of this release. It does not see other objects, admission policies, quotas or permissions.
package validate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"drover.io/runtime/crdvalidation"
	"drover.io/runtime/yamllimit"
)

// maxFile is how large a file may be.
const maxFile = 16 << 20

// Result is what was found in one object.
type Result struct {
	// File and Document say where it is; the first document is 1.
	File     string `json:"file"`
	Document int    `json:"document"`
	// Object is its kind and name.
	Object string `json:"object,omitempty"`
	// Skipped means that it is of another project, and was not checked.
	Skipped  bool     `json:"skipped,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// Validator checks documents.
type Validator struct{ kinds *crdvalidation.Kinds }

// New returns a Validator with the CustomResourceDefinitions of this release.
func New() (*Validator, error) {
	kinds, err := crdvalidation.Load()
	return &Validator{kinds}, err
}

// Files are the manifests that a path names: itself, or those in a folder.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if extension := filepath.Ext(entry.Name()); !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s has no .yaml, .yml or .json files", path)
	}
	return files, nil
}

// Check checks the documents of one file.
func (v *Validator) Check(name string, content io.Reader) ([]Result, error) {
	raw, err := io.ReadAll(io.LimitReader(content, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	var results []Result
	for i := 1; ; i++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, result := range v.document(document) {
			result.File, result.Document = name, i
			results = append(results, result)
		}
	}
}

// document checks the objects of one document; there are none in an empty one.
func (v *Validator) document(raw []byte) []Result {
	content, problem := parse(raw)
	if problem != "" {
		return []Result{{Problems: []string{problem}}}
	}
	return v.objects(content)
}

// objects checks an object, or those in a List, as kubectl prints several.
func (v *Validator) objects(content map[string]any) []Result {
	u := unstructured.Unstructured{Object: content}
	items, is := content["items"].([]any)
	switch {
	case len(content) == 0:
		return nil
	case !is || u.GetAPIVersion() != "v1" || u.GetKind() != "List":
		return []Result{v.object(u)}
	}
	var results []Result
	for i, item := range items {
		each, is := item.(map[string]any)
		if !is {
			results = append(results, Result{Object: "List", Problems: []string{fmt.Sprintf("items[%d] is no object", i)}})
			continue
		}
		results = append(results, v.objects(each)...)
	}
	return results
}

func (v *Validator) object(u unstructured.Unstructured) Result {
	result := Result{Object: strings.TrimSpace(u.GetKind() + " " + u.GetName())}
	own, err := v.kinds.Check(u.GroupVersionKind())
	switch {
	case err != nil:
		result.Problems = []string{err.Error()}
	case u.GetKind() == "" || u.GetAPIVersion() == "":
		result.Problems = []string{"an object has an apiVersion and a kind"}
	case !own:
		result.Skipped = true
	default:
		if result.Problems, err = v.kinds.Admit(u.GroupVersionKind(), u.Object); err != nil {
			result.Problems = []string{err.Error()}
		}
	}
	return result
}

// parse reads YAML or JSON with the bounds of package yamllimit; a key that is there twice is a mistake.
func parse(raw []byte) (map[string]any, string) {
	if err := yamllimit.Check(raw); err != nil {
		return nil, err.Error()
	}
	converted, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, err.Error()
	}
	var object map[string]any
	if err := utiljson.Unmarshal(converted, &object); err != nil {
		return nil, err.Error()
	}
	return object, ""
}
