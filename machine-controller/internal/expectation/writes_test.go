// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestWritesTellAnOlderCache(t *testing.T) {
	t.Parallel()
	at := func(version string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "m", ResourceVersion: version}}
	}
	for name, test := range map[string]struct {
		noted string
		read  []string
		want  []bool
	}{
		"nothing was written":           {"", []string{"1"}, []bool{false}},
		"the cache is older":            {"10", []string{"9"}, []bool{true}},
		"the cache shows it":            {"10", []string{"10"}, []bool{false}},
		"the cache shows a later write": {"10", []string{"11"}, []bool{false}},
		"a write was seen already":      {"10", []string{"9", "10", "9"}, []bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w Writes
			if test.noted != "" {
				w.Note(at(test.noted))
			}
			for i, version := range test.read {
				if got := w.Behind(at(version)); got != test.want[i] {
					t.Errorf("read %d: behind is %t, want %t", i, got, test.want[i])
				}
			}
			w.Note(at("20"))
			w.Drop(at("20"))
			if len(w.versions) != 0 {
				t.Errorf("remembers %v", w.versions)
			}
		})
	}
}
