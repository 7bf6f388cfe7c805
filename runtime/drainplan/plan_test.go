// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMake(t *testing.T) {
	t.Parallel()
	d := func(name string, action Action, order int32, options ...podOption) Decision {
		return Decision{Pod: aPod(name, options...), Action: action, Order: order}
	}
	type groups struct {
		Delete, Evict, Terminating, Completing, Later, Skipped []string
	}
	tests := map[string]struct {
		decisions []Decision
		want      groups
		done      bool
	}{
		"is done when nothing is left": {done: true},
		"is done when all are skipped": {
			decisions: []Decision{d("a", Skip, 0)}, want: groups{Skipped: []string{"a"}}, done: true,
		},
		"evicts the smallest order only": {
			decisions: []Decision{d("a", Evict, 1), d("b", Evict, -1), d("c", Evict, 0), d("d", Evict, -1)},
			want:      groups{Evict: []string{"b", "d"}, Later: []string{"a", "c"}},
		},
		"waits until the Pods of the smaller order have ended": {
			decisions: []Decision{d("a", AwaitTermination, -1), d("b", Evict, 0)},
			want:      groups{Terminating: []string{"a"}, Later: []string{"b"}},
		},
		"waits for completion among order 0": {
			decisions: []Decision{d("a", AwaitCompletion, 0), d("b", Evict, 0), d("c", Evict, 1)},
			want:      groups{Completing: []string{"a"}, Evict: []string{"b"}, Later: []string{"c"}},
		},
		"comes to completion after the negative orders": {
			decisions: []Decision{d("a", AwaitCompletion, 0), d("b", Evict, -5)},
			want:      groups{Evict: []string{"b"}, Later: []string{"a"}},
		},
		"does not begin a group for a skipped Pod of a smaller order": {
			decisions: []Decision{d("a", Skip, -3), d("b", Evict, 2)},
			want:      groups{Evict: []string{"b"}, Skipped: []string{"a"}},
		},
		"deletes whatever its order": {
			decisions: []Decision{d("a", Delete, 9), d("b", Evict, 0)},
			want:      groups{Delete: []string{"a"}, Evict: []string{"b"}},
		},
		"evicts critical Pods last": {
			decisions: []Decision{d("a", Evict, 0, withPriority(2000000000)), d("b", Evict, 0), d("c", Evict, 0, withPriority(-10))},
			want:      groups{Evict: []string{"c", "b", "a"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Make(test.decisions)
			got := groups{
				podNames(p.Delete), podNames(p.Evict), podNames(p.Terminating),
				podNames(p.Completing), podNames(p.Later), podNames(p.Skipped),
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if p.Done() != test.done {
				t.Errorf("done is %t, want %t", p.Done(), test.done)
			}
		})
	}
}

func podNames(decisions []Decision) []string {
	var names []string
	for _, d := range decisions {
		names = append(names, d.Pod.Name)
	}
	return names
}
