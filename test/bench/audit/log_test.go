// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	created = `{"verb":"create","user":{"username":"u"},"objectRef":{"resource":"machines"},"responseStatus":{"code":201}}`
	refused = `{"verb":"patch","user":{"username":"u"},"objectRef":{"resource":"machines","subresource":"status"},"responseStatus":{"code":409}}`
)

func TestReadCountsOnlyWhatIsNewAndWhole(t *testing.T) {
	t.Parallel()
	log := &Log{Path: filepath.Join(t.TempDir(), "audit.log")}
	file, err := os.Create(log.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for _, step := range []struct {
		gains string
		want  map[Call]int
	}{
		{created + "\n" + created + "\n" + refused[:20], map[Call]int{{User: "u", Verb: "create", Resource: "machines"}: 2}},
		{refused[20:] + "\n", map[Call]int{{User: "u", Verb: "patch", Resource: "machines/status", Refused: true}: 1}},
		{"", map[Call]int{}},
	} {
		if _, err := file.WriteString(step.gains); err != nil {
			t.Fatal(err)
		}
		got, err := log.Read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
}

func TestALogThatIsNotThereYetIsEmpty(t *testing.T) {
	t.Parallel()
	log := &Log{Path: filepath.Join(t.TempDir(), "audit.log")}
	if size, err := log.Size(); size != 0 || err != nil {
		t.Errorf("its size is %d, %v", size, err)
	}
}

func TestCallsAreSortedByWhatTheyDo(t *testing.T) {
	t.Parallel()
	for call, want := range map[Call][2]bool{
		{Verb: "patch", Resource: "machines"}:  {true, false},
		{Verb: "create", Resource: "events"}:   {true, true},
		{Verb: "list", Resource: "machines"}:   {false, false},
		{Verb: "delete", Resource: "machines"}: {true, false},
	} {
		if got := [2]bool{call.Write(), call.Event()}; got != want {
			t.Errorf("%s %s: writes, is about an event: %v, want %v", call.Verb, call.Resource, got, want)
		}
	}
}
