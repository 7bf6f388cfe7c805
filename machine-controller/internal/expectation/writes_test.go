// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestBehindDetectsOlderCache(t *testing.T) {
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
			w := Writes{Clock: testingclock.NewFakePassiveClock(epoch)}
			if test.noted != "" {
				w.Note(at(test.noted))
			}
			for i, version := range test.read {
				if got := w.Behind(at(version)); got != test.want[i] {
					t.Errorf("read %d: behind is %t, want %t", i, got, test.want[i])
				}
			}
		})
	}
}

func TestFinalizedIsAlwaysBehind(t *testing.T) {
	t.Parallel()
	w := Writes{Clock: testingclock.NewFakePassiveClock(epoch)}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "m", ResourceVersion: "10"}}
	w.Finalized(m)
	for range 2 {
		if !w.Behind(m) {
			t.Error("what was ended counts as running")
		}
	}
}

func TestExternalChangesSkipsOwnWrites(t *testing.T) {
	t.Parallel()
	at := func(version string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "m", ResourceVersion: version}}
	}
	for name, test := range map[string]struct {
		noted, looked, before, seen string
		want                        bool
	}{
		"it passes if nothing was written":       {"", "", "9", "10", true},
		"it is skipped if this manager wrote it": {"10", "", "9", "10", false},
		"it passes if another client wrote it":   {"10", "", "10", "11", true},
		"it passes if a reconcile waits for it":  {"10", "9", "9", "10", true},
		"it passes if it is a resync":            {"10", "", "10", "10", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := Writes{Clock: testingclock.NewFakePassiveClock(epoch)}
			if test.noted != "" {
				w.Note(at(test.noted))
			}
			if test.looked != "" {
				w.Behind(at(test.looked))
			}
			if got := w.ExternalChanges().Update(event.UpdateEvent{ObjectOld: at(test.before), ObjectNew: at(test.seen)}); got != test.want {
				t.Errorf("news is %t, want %t", got, test.want)
			}
		})
	}
}

func TestWritesExpire(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	w := Writes{Clock: clk}
	note := func(uid types.UID) {
		w.Note(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: "1"}})
	}
	note("gone")
	clk.SetTime(clk.Now().Add(writeTTL))
	note("new")
	if w.versions.Has("gone") || !w.versions.Has("new") || w.versions.Len() != 1 {
		t.Errorf("%d writes are kept, want the newer one", w.versions.Len())
	}
}
