// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// checkText refuses what no program on a host takes for text: systemd and parsers of YAML ignore or refuse a whole file
// for one noncharacter of Unicode. Only the content of files is not checked.
func checkText(spec *bootstrapv1.BootstrapConfigSpec) error {
	raw, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for n, file := range spec.Files {
		if file.Content != nil {
			delete(all["files"].([]any)[n].(map[string]any), "content")
		}
	}
	if at := unreadable("spec", all); at != "" {
		return invalid(at, "has a code point that Unicode has reserved for no character, which programs on the host do not read: remove it")
	}
	return nil
}

// unreadable returns the path of the first text that is not readable; empty if there is none.
func unreadable(path string, value any) string {
	switch value := value.(type) {
	case string:
		if !quote.IsText(value) {
			return path
		}
	case []any:
		for n, each := range value {
			if at := unreadable(fmt.Sprintf("%s[%d]", path, n), each); at != "" {
				return at
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !quote.IsText(key) {
				return path
			}
			if at := unreadable(path+"."+key, value[key]); at != "" {
				return at
			}
		}
	}
	return ""
}
