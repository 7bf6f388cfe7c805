// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInstancesPersist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir)
	created, err := first.Create(Spec{ID: "sim-1", Tags: map[string]string{"a": "b"}, BootDelay: time.Hour}, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	disk := disk{first.dir, "sim-1"}
	if err := disk.Save("kubelet-client.pem", []byte("certificate")); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	found, ok := second.Get("sim-1")
	if !ok {
		t.Fatal("the instance is gone")
	}
	if diff := cmp.Diff(created.Spec, found.Spec); diff != "" {
		t.Errorf("spec (-created +found):\n%s", diff)
	}
	disk.dir = second.dir
	if got := string(disk.Load("kubelet-client.pem")) + string(disk.userData()); got != "certificatedata" {
		t.Errorf("the disk has %q", got)
	}
}

func TestTagsPersist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Create(Spec{ID: "sim-1", Zone: "z", Tags: map[string]string{"owner": "old"}}, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"owner": "new"}
	if err := h.Tag("sim-1", want); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if found, ok := h.Get("sim-1"); !ok || !maps.Equal(found.Tags, want) {
			t.Errorf("got %v, want %v", found.Tags, want)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if h, err = Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Tag("sim-2", want); err != nil {
		t.Errorf("tagging what does not exist: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCreateReturnsTheOneThatExists(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	first, err := h.Create(Spec{ID: "sim-1", Zone: "a", BootDelay: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Create(Spec{ID: "sim-1", Zone: "b", BootDelay: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Spec, again.Spec); diff != "" {
		t.Errorf("another instance (-first +again):\n%s", diff)
	}
}

func TestCreateRefusesInvalidIDs(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	for _, id := range []string{"", "..", "a/b", "../../etc", ".unfinished-x"} {
		if _, err := h.Create(Spec{ID: id}, nil); err == nil {
			t.Errorf("ID %q was accepted", id)
		}
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := open(t, dir)
	if _, err := h.Create(Spec{ID: "sim-1"}, []byte("not user data")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Delete("sim-1"); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(t, dir, "lock")
	if _, ok := h.Get("sim-1"); ok {
		t.Error("the instance still exists")
	}
}

// TestOpenDeletesUnfinishedInstances proves that partially created and deleted instances are not loaded.
func TestOpenDeletesUnfinishedInstances(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, half := range []string{".unfinished-created", filepath.Join(".unfinished-deleted", "sim-1")} {
		if err := os.MkdirAll(filepath.Join(dir, half), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := open(t, dir).List(); len(got) > 0 {
		t.Errorf("found %v", got)
	}
	wantFiles(t, dir, "lock")
}

func TestOpenFailsForALockedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	if second, err := Open(dir); err == nil {
		t.Error("two processes share a state directory")
		_ = second.Close()
	}
}

func TestOpenFailsForADamagedInstance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sim-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if second, err := Open(dir); err == nil {
		t.Error("an instance without a spec was ignored, so it would be created a second time")
		_ = second.Close()
	}
}

func TestAddressesAreUnique(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	seen := map[string]string{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		created, err := h.Create(Spec{ID: id, BootDelay: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[created.InternalIP]; ok {
			t.Errorf("%s and %s have address %s", id, other, created.InternalIP)
		}
		seen[created.InternalIP] = id
	}
	// An ID whose hash is taken gets the next address.
	if taken, next := h.hosts["a"].spec.InternalIP, h.freeAddress("a"); taken == next {
		t.Errorf("address %s is given twice", taken)
	}
}

func TestMessageOfHostsThatDoNotJoin(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	events := make(chan Instance, 10)
	h.Notify(func(instance Instance) { events <- instance })
	if _, err := h.Create(Spec{ID: "sim-1"}, []byte("#cloud-config\n")); err != nil {
		t.Fatal(err)
	}
	for instance := range events {
		if instance.Failed {
			if want := "kubelet does not start: there is no unit /etc/systemd/system/kubelet.service"; instance.Message != want {
				t.Errorf("got %q, want %q", instance.Message, want)
			}
			break
		}
	}
	if got := string(disk{h.dir, "sim-1"}.Load(consoleFile)); got == "" {
		t.Error("the console is empty")
	}
}

// TestUserDataWithoutACommandEndsNoProvider: the author of a machine chooses its user data, and all hosts are in one process.
func TestUserDataWithoutACommandEndsNoProvider(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	events := make(chan Instance, 10)
	h.Notify(func(instance Instance) { events <- instance })
	userData := "#cloud-config\nwrite_files: [{path: /etc/systemd/system/kubelet.service, content: \"[Service]\\nExecStart=-\"}]\n"
	if _, err := h.Create(Spec{ID: "sim-1"}, []byte(userData)); err != nil {
		t.Fatal(err)
	}
	for instance := range events {
		if instance.Failed {
			if want := `kubelet does not start: unit "kubelet.service" has no ExecStart`; instance.Message != want {
				t.Errorf("got %q, want %q", instance.Message, want)
			}
			break
		}
	}
}

func open(t *testing.T, dir string) *Hypervisor {
	t.Helper()
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestRestartBootsFromTheSameDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := open(t, dir)
	events := make(chan Instance, 100)
	h.Notify(func(instance Instance) { events <- instance })
	created, err := h.Create(Spec{ID: "sim-1", Tags: map[string]string{"owner": "old"}}, []byte("#cloud-config\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Tag("sim-1", map[string]string{"owner": "new"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		awaitFailure(events)
		if err := h.Restart("sim-1"); err != nil {
			t.Fatal(err)
		}
	}
	awaitFailure(events)
	if err := h.Restart("sim-2"); err != nil {
		t.Errorf("restarting what does not exist: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	found, _ := again.Get("sim-1")
	if !found.Restarted.After(created.Created) {
		t.Errorf("restarted at %s, created at %s", found.Restarted, created.Created)
	}
	want := created.Spec
	want.Tags, want.Restarted = map[string]string{"owner": "new"}, found.Restarted
	if diff := cmp.Diff(want, found.Spec); diff != "" {
		t.Errorf("spec (-want +found):\n%s", diff)
	}
	if got := strings.Count(string(disk{again.dir, "sim-1"}.Load(consoleFile)), "kubelet does not start"); got < 3 {
		t.Errorf("the host tried to boot %d times, want 3", got)
	}
}

// awaitFailure waits until the host reports that it does not start.
func awaitFailure(events <-chan Instance) {
	for instance := range events {
		if instance.Failed {
			return
		}
	}
}

// TestDeleteWaitsForTheHost proves that nothing of a deleted instance runs.
func TestDeleteWaitsForTheHost(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	for n := range 20 {
		id := fmt.Sprintf("sim-%d", n)
		if _, err := h.Create(Spec{ID: id, BootDelay: time.Hour}, nil); err != nil {
			t.Fatal(err)
		}
		done := h.hosts[id].done
		if err := h.Delete(id); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		default:
			t.Fatalf("the host of %s still runs", id)
		}
	}
}

func TestRestartEndsAHang(t *testing.T) {
	t.Parallel()
	created := time.Unix(1000, 0)
	hangs := created.Add(3 * time.Minute)
	for name, test := range map[string]struct {
		hangsAfter time.Duration
		restarted  time.Time
		want       bool
	}{
		"hangs with the fault":            {hangsAfter: 2 * time.Minute, want: true},
		"hangs after an earlier restart":  {hangsAfter: 2 * time.Minute, restarted: hangs, want: true},
		"does not hang after a later one": {hangsAfter: 2 * time.Minute, restarted: hangs.Add(1)},
		"does not hang without the fault": {},
	} {
		h := &host{spec: Spec{Created: created, BootDelay: time.Minute, HangsAfter: test.hangsAfter, Restarted: test.restarted}}
		if at, ok := h.hangsAt(); ok != test.want || ok && !at.Equal(hangs) {
			t.Errorf("%s: got %s, %t", name, at, ok)
		}
	}
}
