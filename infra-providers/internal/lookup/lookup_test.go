// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"errors"
	"testing"
	"time"

	"drover.io/runtime/expiring"
)

func TestAnswersAreReadOncePerQuery(t *testing.T) {
	t.Parallel()
	answers := expiring.Map[string, any]{TTL: time.Hour}
	reads := 0
	get := func(kind string, query any, err error) (int, error) {
		return Cached(&answers, kind, query, func() (int, error) {
			reads++
			return reads, err
		})
	}
	failed := errors.New("the cloud does not answer")
	if _, err := get("image", []string{"a", "b"}, failed); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	for _, each := range []struct {
		kind  string
		query any
		want  int
	}{
		{"image", []string{"a", "b"}, 2}, // a failure is not kept
		{"image", []string{"a", "b"}, 2},
		{"image", []string{"a b"}, 3},
		{"instance type", []string{"a", "b"}, 4},
		{"image", []string{"a", "b"}, 2},
	} {
		if got, err := get(each.kind, each.query, nil); err != nil || got != each.want {
			t.Errorf("%s %v is the answer %d, %v, want %d", each.kind, each.query, got, err, each.want)
		}
	}
	if _, err := get("image", func() {}, nil); err == nil {
		t.Error("a query that cannot be compared was answered")
	}
}
