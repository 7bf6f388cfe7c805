// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package parser

import "testing"

func TestDiff(t *testing.T) {
	t.Parallel()
	got := map[string]any{
		"name": "a", "replicas": int64(3), "labels": map[string]any{"x": "y"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "message": "two\nlines"}, map[string]any{"type": "Paused"}},
		"finalizers": []any{"f", "g"},
	}
	for name, test := range map[string]struct {
		want any
		diff string
	}{
		"asks for nothing":                    {map[string]any{}, ""},
		"finds a part":                        {map[string]any{"labels": map[string]any{"x": "y"}}, ""},
		"takes numbers for numbers":           {map[string]any{"replicas": float64(3)}, ""},
		"distinguishes numbers":               {map[string]any{"replicas": float64(4)}, ".replicas is 3, want 4"},
		"distinguishes texts":                 {map[string]any{"name": "b"}, `.name is "a", want "b"`},
		"distinguishes texts and numbers":     {map[string]any{"replicas": "3"}, `.replicas is 3, want "3"`},
		"misses a field":                      {map[string]any{"labels": map[string]any{"z": "y"}}, `.labels.z is missing, want "y"`},
		"misses a whole branch":               {map[string]any{"spec": map[string]any{"z": "y"}}, `.spec is missing, want {"z":"y"}`},
		"finds an element wherever it is":     {map[string]any{"conditions": []any{map[string]any{"type": "Paused"}}}, ""},
		"names the element that is different": {map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}, `.conditions[Ready].status is "True", want "False"`},
		"misses an element":                   {map[string]any{"finalizers": []any{"f", "h"}}, `.finalizers has no "h"`},
		"wants absence":                       {map[string]any{"spec": nil, "gone": []any{}}, ""},
		"finds what should be absent":         {map[string]any{"name": nil}, `.name is "a", want none`},
		"finds what should be empty":          {map[string]any{"finalizers": []any{}}, `.finalizers is ["f","g"], want none`},
		"takes a regular expression":          {map[string]any{"conditions": []any{map[string]any{"message": `/two\nl/`}}}, ""},
		"compares with an expression":         {map[string]any{"name": "/^b/"}, `.name is "a", which does not match /^b/`},
		"does not take an expression amiss":   {map[string]any{"name": "/(/"}, ".name cannot be compared: error parsing regexp: missing closing ): `(`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := Diff(test.want, got); diff != test.diff {
				t.Errorf("got %q, want %q", diff, test.diff)
			}
		})
	}
}
