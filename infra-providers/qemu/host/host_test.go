// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/qemufake"
	"drover.io/infra-providers/qemu/vm"
)

func TestMain(m *testing.M) {
	qemufake.Main()
	os.Exit(m.Run())
}

// env is a state directory with its images and the fake's programs.
type env struct {
	t       *testing.T
	options host.Options
	host    *host.Host
}

func newEnv(t *testing.T) *env {
	t.Helper()
	folder, err := os.MkdirTemp("", "drover-host-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	w := &env{t: t, options: host.Options{StateDir: filepath.Join(folder, "state"), ImageDir: folder, Programs: folder}}
	w.write(filepath.Join(folder, "empty.raw"), "")
	if err := qemufake.Programs(folder); err != nil {
		t.Fatal(err)
	}
	w.open()
	t.Cleanup(func() {
		for _, m := range w.host.List() {
			w.must(w.host.Delete(m.ID))
		}
		w.await("nothing to be left", func() bool { return len(w.host.List()) == 0 })
		w.must(w.host.Close())
		w.must(os.RemoveAll(folder))
	})
	return w
}

func (w *env) open() {
	w.t.Helper()
	opened, err := host.Open(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.host = opened
}

// reopen restarts the provider.
func (w *env) reopen() {
	w.t.Helper()
	w.must(w.host.Close())
	w.open()
}

func (w *env) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *env) write(path, content string) {
	w.t.Helper()
	w.must(os.WriteFile(path, []byte(content), 0o600))
}

func (w *env) path(name string) string {
	return filepath.Join(w.options.StateDir, "machines", "vm-1", name)
}

func (w *env) await(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("timeout waiting for %s: %+v", what, w.host.List())
		}
	}
}

func (w *env) awaitPhase(want host.Phase) {
	w.t.Helper()
	w.await(string(want), func() bool {
		m, ok := w.host.Get("vm-1")
		return ok && m.Phase == want
	})
}

func (w *env) awaitGone() {
	w.t.Helper()
	w.await("the machine to be gone", func() bool {
		_, ok := w.host.Get("vm-1")
		return !ok
	})
}

// create creates a machine and waits until it runs or is stopped.
func (w *env) create(change func(*vm.Spec)) {
	w.t.Helper()
	spec := newSpec()
	if change != nil {
		change(&spec)
	}
	if _, err := w.host.Create(spec, []byte("#cloud-config\n")); err != nil {
		w.t.Fatal(err)
	}
	w.await("it to be up", func() bool {
		m, _ := w.host.Get("vm-1")
		return m.Phase == host.Running || m.Phase == host.Stopped
	})
}

func (w *env) pid() int {
	w.t.Helper()
	content, err := os.ReadFile(w.path("qemu.pid"))
	if err != nil {
		w.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func newSpec() vm.Spec {
	return vm.Spec{
		ID: "vm-1", ProviderID: "qemu:///lab/vm-1", Hostname: "worker-1", Architecture: "amd64", Acceleration: "TCG", CPUs: 1, MemoryMiB: 64,
		Image: image.Source{Path: "empty.raw"}, ImageFormat: "raw", MAC: "52:54:00:01:02:03", Grace: time.Minute,
	}
}

func TestRestartedProviderTakesOverMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(nil)
	before := w.pid()
	w.reopen()
	w.awaitPhase(host.Running)
	if after := w.pid(); after != before || !running(before) {
		t.Errorf("process %d became %d", before, after)
	}
	w.must(w.host.Delete("vm-1"))
	w.awaitGone()
	if running(before) {
		t.Errorf("process %d outlived its machine", before)
	}
}

func TestRestartsMachineAfterProcessExit(t *testing.T) {
	t.Parallel()
	for name, while := range map[string]func(w *env, kill func()){
		"while the provider runs":         func(_ *env, kill func()) { kill() },
		"while the provider does not run": func(w *env, kill func()) { w.must(w.host.Close()); kill(); w.open() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(nil)
			w.write(w.path("disk.qcow2"), "what the guest wrote")
			before := w.pid()
			while(w, func() {
				w.must(syscall.Kill(before, syscall.SIGKILL))
				w.await("the process to end", func() bool { return !running(before) })
			})
			w.await("another process", func() bool {
				content, err := os.ReadFile(w.path("qemu.pid"))
				return err == nil && strings.TrimSpace(string(content)) != strconv.Itoa(before)
			})
			w.awaitPhase(host.Running)
			if content, err := os.ReadFile(w.path("disk.qcow2")); err != nil || string(content) != "what the guest wrote" {
				t.Errorf("the disk was created again: %q, %v", content, err)
			}
		})
	}
}

func TestPoweredOffGuestStaysOff(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(func(s *vm.Spec) { s.CommandLine = qemufake.PoweredOff })
	w.awaitPhase(host.Stopped)
	before := w.pid()
	w.reopen()
	w.awaitPhase(host.Stopped)
	if w.pid() != before {
		t.Error("it was started again")
	}
}

// TestInternalErrorNamesKVM: QEMU reports a KVM that cannot run the guest as an internal error.
func TestInternalErrorNamesKVM(t *testing.T) {
	t.Parallel()
	for acceleration, want := range map[string]string{
		"Auto": "QEMU reports the state internal-error, which may be a KVM of the host that cannot run the guest: set the acceleration TCG",
		"TCG":  "QEMU reports the state internal-error",
	} {
		t.Run(acceleration, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(func(s *vm.Spec) { s.CommandLine, s.Acceleration = qemufake.InternalError, acceleration })
			w.awaitPhase(host.Stopped)
			if m, _ := w.host.Get("vm-1"); m.Message != want {
				t.Errorf("the message is %q, want %q", m.Message, want)
			}
		})
	}
}

// TestDeletionEndsTheProcess has a grace period of a minute for guests that power off, so an unnecessary wait exceeds the
// timeout of the test.
func TestDeletionEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*vm.Spec){
		"when the guest powers off":         nil,
		"when the guest is off already":     func(s *vm.Spec) { s.CommandLine = qemufake.PoweredOff },
		"when the guest has no grace":       func(s *vm.Spec) { s.Grace = 0; s.CommandLine = qemufake.IgnoresPowerButton },
		"when the guest does not power off": func(s *vm.Spec) { s.Grace = 100 * time.Millisecond; s.CommandLine = qemufake.IgnoresPowerButton },
		"after the provider was restarted":  func(s *vm.Spec) { s.Grace = 3 * time.Second; s.CommandLine = qemufake.IgnoresPowerButton },
		"when the process does not answer":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(change)
			pid := w.pid()
			if strings.Contains(name, "does not answer") {
				w.must(syscall.Kill(pid, syscall.SIGSTOP))
			}
			w.must(w.host.Delete("vm-1"))
			if strings.Contains(name, "was restarted") {
				w.reopen()
				if m, exists := w.host.Get("vm-1"); exists && m.Phase != host.Deleting {
					t.Errorf("it is %s, although it is being deleted", m.Phase)
				}
			}
			w.awaitGone()
			if running(pid) {
				t.Errorf("process %d is left", pid)
			}
			if _, err := os.Stat(w.path("")); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

// TestInterruptedCreationIsCompleted starts with the files of a provider that was killed.
func TestInterruptedCreationIsCompleted(t *testing.T) {
	t.Parallel()
	for name, left := range map[string][]string{
		"after it was stored":           nil,
		"while it created the disk":     {"disk.qcow2.partial"},
		"while it wrote the seed":       {"disk.qcow2", "seed.iso.partial"},
		"before it started the process": {"disk.qcow2", "seed.iso", "lock"},
		"after an earlier process":      {"disk.qcow2", "seed.iso", "lock", "qmp.sock", "qemu.pid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.must(w.host.Close())
			w.must(os.MkdirAll(w.path(""), 0o700))
			w.write(w.path("machine.json"), `{"id":"vm-1","architecture":"amd64","cpus":1,"memoryMiB":64,"image":{"path":"empty.raw"},"imageFormat":"raw"}`)
			w.write(w.path("user-data"), "#cloud-config\n")
			for _, file := range left {
				w.write(w.path(file), "half")
			}
			w.open()
			w.awaitPhase(host.Running)
		})
	}
}

func TestStateDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if second, err := host.Open(w.options); err == nil {
		t.Error("a second one opened it")
		w.must(second.Close())
	}
}

func TestMachineThatCannotStartCanBeDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	spec := newSpec()
	spec.Image = image.Source{URL: "http://127.0.0.1:1/none", SHA256: strings.Repeat("0", 64)}
	if _, err := w.host.Create(spec, nil); err != nil {
		t.Fatal(err)
	}
	w.await("the reason", func() bool {
		m, _ := w.host.Get("vm-1")
		return m.Phase == host.Starting && strings.HasPrefix(m.Message, "downloading http://127.0.0.1:1/none: ")
	})
	w.must(w.host.Delete("vm-1"))
	w.awaitGone()
}

func TestRestartResetsTheGuest(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(nil)
	pid := w.pid()
	for range 2 {
		w.must(w.host.Restart(t.Context(), "vm-1"))
	}
	w.wantBoots(2)
	w.reopen()
	w.awaitPhase(host.Running)
	w.must(w.host.Restart(t.Context(), "vm-1"))
	w.wantBoots(3)
	if now := w.pid(); now != pid {
		t.Errorf("process %d became %d", pid, now)
	}
	w.must(w.host.Restart(t.Context(), "vm-2"))
}

func TestPoweredOffGuestIsNotReset(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(func(s *vm.Spec) { s.CommandLine = qemufake.PoweredOff })
	if err := w.host.Restart(t.Context(), "vm-1"); !errors.Is(err, host.ErrNotRunning) {
		t.Errorf("got %v, want ErrNotRunning", err)
	}
	w.wantBoots(0)
}

// wantBoots waits until the console shows a number of boots after resets.
func (w *env) wantBoots(want int) {
	w.t.Helper()
	w.await("it to boot again", func() bool {
		content, err := os.ReadFile(w.host.Console("vm-1"))
		if err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
		got := strings.Count(string(content), qemufake.Booted)
		if got > want {
			w.t.Fatalf("it booted again %d times, want %d", got, want)
		}
		return got == want
	})
}

// TestConsoleKeepsTheOutputWithoutAProvider: a provider reads the whole buffer of the console.
func TestConsoleKeepsTheOutputWithoutAProvider(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(func(s *vm.Spec) { s.CommandLine = qemufake.FullConsole })
	want := strings.Repeat(qemufake.Line, 1<<20/len(qemufake.Line))
	w.await("the console", func() bool {
		content, _ := os.ReadFile(w.host.Console("vm-1"))
		return string(content) == want
	})
}

// TestImageWithAnotherFileIsRefused: QEMU would give the guest any file, device or URL in the header of an image.
func TestImageWithAnotherFileIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	secret := filepath.Join(w.options.ImageDir, "secret")
	w.write(secret, "of the host")
	dataFile := qemufake.Disk(1<<20, "")
	dataFile[79] = 0b100
	for name, content := range map[string]string{
		"backing.qcow2": string(qemufake.Disk(1<<20, secret)),
		"url.qcow2":     string(qemufake.Disk(1<<20, "nbd://127.0.0.1:1/")),
		"data.qcow2":    string(dataFile),
		"raw.qcow2":     "not a disk of that format",
	} {
		w.write(filepath.Join(w.options.ImageDir, name), content)
		spec := newSpec()
		spec.Image, spec.ImageFormat = image.Source{Path: name}, "qcow2"
		if _, err := w.host.Create(spec, nil); !isFieldError(err, "spec.image") {
			t.Errorf("%s: got %v, want an error about spec.image", name, err)
		}
		if found, err := w.host.Image(spec); !isFieldError(err, "spec.image") {
			t.Errorf("%s: found %q and %v, want an error about spec.image", name, found, err)
		}
	}
	spec := newSpec()
	spec.ImageFormat = "vmdk"
	if _, err := w.host.Create(spec, nil); !isFieldError(err, "spec.image.format") {
		t.Errorf("vmdk: got %v, want an error about spec.image.format", err)
	}
	for name, content := range map[string][]byte{"a self-contained disk": qemufake.Disk(1<<20, ""), "a raw disk with the content of one with a backing file": qemufake.Disk(1<<20, secret)} {
		w.write(filepath.Join(w.options.ImageDir, "fine"), string(content))
		spec := newSpec()
		spec.Image, spec.ImageFormat = image.Source{Path: "fine"}, "qcow2"
		if strings.HasPrefix(name, "a raw") {
			spec.ImageFormat = "raw"
		}
		if _, err := w.host.Image(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDownloadedImageWithAnotherFileIsRefused: its header is known only after the download.
func TestDownloadedImageWithAnotherFileIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	disk := qemufake.Disk(1<<20, "/etc/hostname")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(disk) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(disk)
	spec := newSpec()
	spec.Image, spec.ImageFormat = image.Source{URL: server.URL, SHA256: hex.EncodeToString(sum[:])}, "qcow2"
	if _, err := w.host.Create(spec, nil); err != nil {
		t.Fatal(err)
	}
	w.await("the reason", func() bool {
		m, _ := w.host.Get("vm-1")
		return m.Phase == host.Starting && strings.HasPrefix(m.Message, "spec.image: it names a backing file")
	})
	if _, err := os.Stat(w.path("disk.qcow2")); !os.IsNotExist(err) {
		t.Errorf("a disk was created with it: %v", err)
	}
	// The next one is refused at once, because the image is on the host.
	spec.ID = "vm-2"
	if _, err := w.host.Create(spec, nil); !isFieldError(err, "spec.image") {
		t.Errorf("got %v, want an error about spec.image", err)
	}
}

func isFieldError(err error, field string) bool {
	found, ok := errors.AsType[*vm.FieldError](err)
	return ok && found.Field == field
}
