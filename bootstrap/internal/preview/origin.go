// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text is the merged specification in YAML, with a comment behind each value that is where it comes from.
func (s *resolved) text() ([]byte, error) {
	merged, err := tree(s.merged)
	if err != nil {
		return nil, err
	}
	own, err := tree(s.own)
	if err != nil {
		return nil, err
	}
	under, err := tree(s.under)
	if err != nil {
		return nil, err
	}
	s.trees.merged, s.trees.under = merged, under
	s.markDefaults("", merged, own, s.given)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(s.annotate("", merged, own, under)), encoder.Close()); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

// markDefaults finds the values of the BootstrapConfig that it was not given: those are defaults of the schema.
func (s *resolved) markDefaults(path string, merged, own, given any) {
	switch own := own.(type) {
	case absent:
	case map[string]any:
		for key := range own {
			s.markDefaults(strings.TrimPrefix(path+"."+key, "."), at(merged, key), own[key], at(given, key))
		}
	case []any:
		all, _ := merged.([]any)
		of, _ := given.([]any)
		for i := range min(len(own), len(of), len(all)) {
			j := len(all) - len(own) + i // the profile's are put before them
			s.markDefaults(path+"["+strconv.Itoa(j)+"]", all[j], own[i], of[i])
		}
	default:
		if given == (absent{}) {
			s.origins[path] = ofDefault
		}
	}
}

// tree is a value as JSON has it.
func tree(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	var out any
	return out, json.Unmarshal(raw, &out)
}

// absent is in place of a value that there is not; null is one.
type absent struct{}

// at is the value of a key.
func at(of any, key string) any {
	object, _ := of.(map[string]any)
	if value, has := object[key]; has {
		return value
	}
	return absent{}
}

// annotate writes a value of the merged specification, with those of the BootstrapConfig and of the profile at the same place.
func (s *resolved) annotate(path string, merged, own, under any) *yaml.Node {
	switch merged := merged.(type) {
	case map[string]any:
		return s.annotateObject(path, merged, own, under)
	case []any:
		return s.annotateList(path, merged, own)
	}
	n := &yaml.Node{}
	if err := n.Encode(scalar(merged)); err != nil {
		n.SetString(fmt.Sprint(merged))
	}
	s.values[path] = s.origin(path, merged, own, under)
	if n.LineComment = s.values[path]; n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.HeadComment, n.LineComment = n.LineComment, "" // there is no place behind a text of several lines
	}
	return n
}

// scalar is a value as YAML writes it: all numbers of the specification are integers, but for those of the kubelet.
func scalar(v any) any {
	if number, is := v.(float64); is && number == float64(int64(number)) {
		return int64(number)
	}
	return v
}

func (s *resolved) annotateObject(path string, merged map[string]any, own, under any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		name := &yaml.Node{}
		name.SetString(key)
		value := s.annotate(strings.TrimPrefix(path+"."+key, "."), merged[key], at(own, key), at(under, key))
		name.HeadComment, value.HeadComment = value.HeadComment, ""
		n.Content = append(n.Content, name, value)
	}
	return n
}

// annotateList writes a list whose last items are those of the BootstrapConfig: the profile's are put before them.
func (s *resolved) annotateList(path string, merged []any, own any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	of, _ := own.([]any)
	for i, item := range merged {
		var mine, theirs any = absent{}, item
		if i >= len(merged)-len(of) {
			mine, theirs = item, absent{}
		}
		n.Content = append(n.Content, s.annotate(path+"["+strconv.Itoa(i)+"]", item, mine, theirs))
	}
	return n
}

// origin is where a value comes from.
func (s *resolved) origin(path string, merged, own, under any) string {
	if known := s.known(path); known != "" {
		return known
	}
	switch {
	case own == absent{}:
		return s.profile
	case under != absent{} && !reflect.DeepEqual(merged, own):
		return s.profile + " and " + s.kind
	}
	return s.kind
}

// known is the origin of a field, or of one that it is in, which is of neither.
func (s *resolved) known(path string) string {
	for path != "" {
		if of := s.origins[path]; of != "" {
			return of
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return ""
}
