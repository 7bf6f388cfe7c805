// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crdvalidation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/runtime/spelling"
)

// index matches the indexes of a path, as in files[2].
var index = regexp.MustCompile(`\[\d+\]`)

// unknownField names a field that a kind does not have, and the one that may be meant: that of the same object with a
// similar name, or else the only one of the kind with this name.
func unknownField(path string, root *structuralschema.Structural) string {
	message := fmt.Sprintf("unknown field %q", path)
	keys := strings.Split(index.ReplaceAllString(path, ""), ".")
	name, parent := keys[len(keys)-1], at(root, keys[:len(keys)-1])
	if parent == nil {
		return message
	}
	if near, found := spelling.Nearest(name, slices.Sorted(maps.Keys(parent.Properties))); found {
		return fmt.Sprintf("%s, did you mean %q?", message, near)
	}
	if _, has := parent.Properties["apiGroup"]; has && name == "apiVersion" {
		return message + `, did you mean "apiGroup", which has no version?`
	}
	if places := places(root, name, ""); len(places) == 1 {
		return fmt.Sprintf("%s, did you mean %q?", message, places[0])
	}
	return message
}

// at is the schema of an object, by the fields that lead to it; nil where a field has no properties of its own.
func at(s *structuralschema.Structural, keys []string) *structuralschema.Structural {
	for _, key := range keys {
		next, has := s.Properties[key]
		switch {
		case has:
			s = &next
		case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
			s = s.AdditionalProperties.Structural
		default:
			return nil
		}
		for s.Items != nil {
			s = s.Items
		}
	}
	return s
}

// places are the paths of all fields of spec with a name.
func places(s *structuralschema.Structural, name, path string) []string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if path == "" && key != "spec" {
			continue
		}
		property := s.Properties[key]
		here := strings.TrimPrefix(path+"."+key, ".")
		if key == name {
			found = append(found, here)
		}
		for property.Items != nil {
			property, here = *property.Items, here+"[]"
		}
		found = append(found, places(&property, name, here)...)
	}
	return found
}

// checkMetadata returns what cannot be decoded as the metadata of an object.
func checkMetadata(object map[string]any) []string {
	value, has := object["metadata"]
	if !has {
		return nil
	}
	metadata, is := value.(map[string]any)
	if !is {
		return []string{"metadata: must be an object with a name"}
	}
	types := metadataTypes()
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		kind, known := types[key]
		if !known {
			problem := fmt.Sprintf("unknown field %q", "metadata."+key)
			if near, found := spelling.Nearest(key, slices.Sorted(maps.Keys(types))); found {
				problem += fmt.Sprintf(", did you mean %q?", near)
			}
			problems = append(problems, problem)
			continue
		}
		problems = append(problems, checkType("metadata."+key, metadata[key], kind)...)
	}
	return problems
}

// metadataTypes are the fields of metadata.
func metadataTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for field := range reflect.TypeFor[metav1.ObjectMeta]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		types[name] = field.Type
	}
	return types
}

// checkType returns why a value cannot be decoded as a type, with the key where it is one of labels or annotations.
func checkType(path string, value any, kind reflect.Type) []string {
	raw, err := json.Marshal(value)
	if err == nil && json.Unmarshal(raw, reflect.New(kind).Interface()) == nil {
		return nil
	}
	entries, is := value.(map[string]any)
	if kind != reflect.TypeFor[map[string]string]() {
		return []string{fmt.Sprintf("%s: must be of type %s", path, typeName(kind))}
	}
	if !is {
		return []string{fmt.Sprintf("%s: must be an object whose values are strings", path)}
	}
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if _, is := entries[key].(string); !is && entries[key] != nil {
			problems = append(problems, fmt.Sprintf("%s[%s]: must be of type string, so put it in quotes: %q", path, key, fmt.Sprint(entries[key])))
		}
	}
	return problems
}

// typeName is what the documentation of the API calls a type.
func typeName(kind reflect.Type) string {
	switch kind {
	case reflect.TypeFor[string]():
		return "string"
	case reflect.TypeFor[int64](), reflect.TypeFor[*int64]():
		return "integer"
	}
	if kind.Kind() == reflect.Slice {
		return "array"
	}
	return "date-time, such as 2026-01-31T12:00:00Z"
}
