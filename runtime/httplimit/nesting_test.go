// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"drover.io/runtime/httplimit"
)

// nest returns a value in so many arrays or objects.
func nest(levels int, array bool, value string) string {
	if array {
		return strings.Repeat("[", levels) + value + strings.Repeat("]", levels)
	}
	return strings.Repeat(`{"a":`, levels) + value + strings.Repeat("}", levels)
}

// TestDeepValuesAreEmpty reads answers at once and byte by byte.
func TestDeepValuesAreEmpty(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, answer, want string }{
		"a flat object":         {"application/json", `{"a":[{}],"b":"[[["}`, ``},
		"as deep as allowed":    {"application/json", nest(1000, true, `1`), ``},
		"one array too deep":    {"application/json", nest(1000, true, `[1],[2,{}],"x"`), nest(1000, true, `[],[],"x"`)},
		"one object too deep":   {"application/json", nest(1000, false, `{"b":"]]}}"}`), nest(1000, false, `{}`)},
		"deeper than a decoder": {"application/json", `{"items":[` + nest(20000, false, `1`) + `,{"b":1}]}`, `{"items":[` + nest(998, false, `{}`) + `,{"b":1}]}`},
		"events of a watch":     {"application/json;stream=watch", nest(2000, true, `1`) + "\n" + `{"b":1}`, nest(1001, true, ``) + "\n" + `{"b":1}`},
		"what is not JSON":      {"application/vnd.kubernetes.protobuf", nest(2000, true, `1`), ``},
	} {
		want := test.want
		if want == "" {
			want = test.answer
		}
		for way, body := range map[string]io.Reader{
			"at once": strings.NewReader(test.answer), "byte by byte": iotest.OneByteReader(strings.NewReader(test.answer)),
			"with the end": iotest.DataErrReader(strings.NewReader(test.answer)),
		} {
			response, err := httplimit.WrapNested(answer{test.kind, body}).RoundTrip(&http.Request{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(response.Body)
			if err != nil || string(got) != want {
				t.Errorf("%s, %s: got %d bytes and %v, want %d", name, way, len(got), err, len(want))
			}
			var decoded any
			if strings.HasPrefix(name, "deeper") && json.Unmarshal(got, &decoded) != nil {
				t.Errorf("%s: it cannot be decoded", name)
			}
		}
	}
}

// answer is a transport that answers with a body of a type.
type answer struct {
	kind string
	body io.Reader
}

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(a.body)}, nil
}
