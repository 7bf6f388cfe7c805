// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	"encoding/json"
	"strings"
)

// mask is a field mask: the fields of an object that an answer keeps, with the mask of each; an empty one keeps everything.
// The field * is every field.
type mask map[string]mask

// parseMask reads a mask such as a,b/c,d(e,f/g) up to its end or a closing parenthesis, and returns what follows.
func parseMask(text string) (mask, string) {
	all := mask{}
	for {
		at := all
		for more := true; more; {
			end := strings.IndexAny(text, ",/()")
			if end < 0 {
				end = len(text)
			}
			name := text[:end]
			if at[name] == nil {
				at[name] = mask{}
			}
			text, more = text[end:], strings.HasPrefix(text[end:], "/")
			if more {
				at, text = at[name], text[1:]
			} else if strings.HasPrefix(text, "(") {
				at[name], text = parseMask(text[1:])
				text = strings.TrimPrefix(text, ")")
			}
		}
		if !strings.HasPrefix(text, ",") {
			return all, text
		}
		text = text[1:]
	}
}

// apply returns what a mask keeps of a value.
func (m mask) apply(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = m.apply(value[i])
		}
	case map[string]any:
		kept := map[string]any{}
		for name, field := range value {
			wanted, ok := m[name]
			if !ok {
				wanted, ok = m["*"]
			}
			if ok || len(m) == 0 {
				kept[name] = wanted.apply(field)
			}
		}
		return kept
	}
	return value
}

// selectFields returns the fields of an answer that a request asks for.
func selectFields(answer []byte, fields string) ([]byte, error) {
	if fields == "" {
		return answer, nil
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return nil, err
	}
	wanted, _ := parseMask(fields)
	return json.Marshal(wanted.apply(value))
}
