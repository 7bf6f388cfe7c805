// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// identities are the keys that identify an element of a list.
var identities = []string{"type", "name", "key", "kind"}

// Diff describes the first difference of got from want, or is empty. Every field of want
// must be in got; null and an empty list require the absence of a field. Every element
// of a wanted list must be like some element of the other. A string between slashes is a
// regular expression.
func Diff(want, got any) string {
	switch want := want.(type) {
	case nil:
		if got != nil {
			return fmt.Sprintf(" is %s, want none", short(got))
		}
		return ""
	case map[string]any:
		return diffMap(want, got)
	case []any:
		return diffList(want, got)
	case string:
		return diffString(want, got)
	}
	if a, b := short(want), short(got); a != b {
		return fmt.Sprintf(" is %s, want %s", b, a)
	}
	return ""
}

func diffMap(want map[string]any, got any) string {
	fields, ok := got.(map[string]any)
	if !ok {
		return missing(want, got)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if diff := Diff(want[key], fields[key]); diff != "" {
			return "." + key + diff
		}
	}
	return ""
}

func diffList(want []any, got any) string {
	elements, ok := got.([]any)
	if !ok && (got != nil || len(want) > 0) {
		return missing(want, got)
	}
	if len(want) == 0 && len(elements) > 0 {
		return fmt.Sprintf(" is %s, want none", short(got))
	}
	for _, element := range want {
		if slices.ContainsFunc(elements, func(e any) bool { return Diff(element, e) == "" }) {
			continue
		}
		if match, name := sameIdentity(element, elements); match != nil {
			return fmt.Sprintf("[%s]%s", name, Diff(element, match))
		}
		return fmt.Sprintf(" has no %s", short(element))
	}
	return ""
}

// sameIdentity finds the element that is meant, though it is not as wanted.
func sameIdentity(want any, elements []any) (any, string) {
	fields, ok := want.(map[string]any)
	if !ok {
		return nil, ""
	}
	for _, key := range identities {
		name, ok := fields[key].(string)
		if !ok {
			continue
		}
		for _, element := range elements {
			if other, ok := element.(map[string]any); ok && other[key] == name {
				return other, name
			}
		}
	}
	return nil, ""
}

func diffString(want string, got any) string {
	text, ok := got.(string)
	if !ok {
		return missing(want, got)
	}
	if pattern, is := expression(want); is {
		matched, err := regexp.MatchString(pattern, text)
		if err != nil {
			return fmt.Sprintf(" cannot be compared: %v", err)
		}
		if matched {
			return ""
		}
		return fmt.Sprintf(" is %q, which does not match %s", text, want)
	}
	if text != want {
		return fmt.Sprintf(" is %q, want %q", text, want)
	}
	return ""
}

// expression is what stands between slashes.
func expression(text string) (string, bool) {
	if len(text) < 3 || !strings.HasPrefix(text, "/") || !strings.HasSuffix(text, "/") {
		return "", false
	}
	return text[1 : len(text)-1], true
}

func missing(want, got any) string {
	if got == nil {
		return fmt.Sprintf(" is missing, want %s", short(want))
	}
	return fmt.Sprintf(" is %s, want %s", short(got), short(want))
}

func short(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}
