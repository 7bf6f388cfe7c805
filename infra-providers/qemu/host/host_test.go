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
	"drover.io/infra-providers/qemu/standin"
)

func TestMain(m *testing.M) {
	standin.Main()
	os.Exit(m.Run())
}

// lab is a state directory, its images and the stand-in's programs.
type lab struct {
	t       *testing.T
	options host.Options
	host    *host.Host
}

func newLab(t *testing.T) *lab {
	t.Helper()
	folder, err := os.MkdirTemp("", "drover-host-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, options: host.Options{StateDir: filepath.Join(folder, "state"), ImageDir: folder, Programs: folder}}
	l.write(filepath.Join(folder, "empty.raw"), "")
	if err := standin.Programs(folder); err != nil {
		t.Fatal(err)
	}
	l.open()
	t.Cleanup(func() {
		for _, m := range l.host.List() {
			l.must(l.host.Delete(m.ID))
		}
		l.await("nothing to be left", func() bool { return len(l.host.List()) == 0 })
		l.must(l.host.Close())
		l.must(os.RemoveAll(folder))
	})
	return l
}

func (l *lab) open() {
	l.t.Helper()
	opened, err := host.Open(l.options)
	if err != nil {
		l.t.Fatal(err)
	}
	l.host = opened
}

// reopen is what a provider that ends and starts again does.
func (l *lab) reopen() {
	l.t.Helper()
	l.must(l.host.Close())
	l.open()
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Error(err)
	}
}

func (l *lab) write(path, content string) {
	l.t.Helper()
	l.must(os.WriteFile(path, []byte(content), 0o600))
}

func (l *lab) path(name string) string {
	return filepath.Join(l.options.StateDir, "machines", "vm-1", name)
}

func (l *lab) await(what string, done func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited in vain for %s: %+v", what, l.host.List())
		}
	}
}

func (l *lab) awaitPhase(want host.Phase) {
	l.t.Helper()
	l.await(string(want), func() bool {
		m, ok := l.host.Get("vm-1")
		return ok && m.Phase == want
	})
}

func (l *lab) awaitGone() {
	l.t.Helper()
	l.await("the machine to be gone", func() bool {
		_, ok := l.host.Get("vm-1")
		return !ok
	})
}

// make has a machine made and waits until it runs.
func (l *lab) make(change func(*host.Spec)) {
	l.t.Helper()
	spec := sample()
	if change != nil {
		change(&spec)
	}
	if _, err := l.host.Create(spec, []byte("#cloud-config\n")); err != nil {
		l.t.Fatal(err)
	}
	l.await("it to be up", func() bool {
		m, _ := l.host.Get("vm-1")
		return m.Phase == host.Running || m.Phase == host.Stopped
	})
}

func (l *lab) pid() int {
	l.t.Helper()
	content, err := os.ReadFile(l.path("qemu.pid"))
	if err != nil {
		l.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		l.t.Fatal(err)
	}
	return pid
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func sample() host.Spec {
	return host.Spec{
		ID: "vm-1", ProviderID: "qemu:///lab/vm-1", Hostname: "worker-1", Architecture: "amd64", Acceleration: "TCG", CPUs: 1, MemoryMiB: 64,
		Image: image.Source{Path: "empty.raw"}, ImageFormat: "raw", MAC: "52:54:00:01:02:03", Grace: time.Minute,
	}
}

func TestARestartedProviderTakesOverWhatRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.make(nil)
	before := l.pid()
	l.reopen()
	l.awaitPhase(host.Running)
	if after := l.pid(); after != before || !alive(before) {
		t.Errorf("process %d became %d", before, after)
	}
	l.must(l.host.Delete("vm-1"))
	l.awaitGone()
	if alive(before) {
		t.Errorf("process %d outlived its machine", before)
	}
}

func TestAMachineWhoseProcessDiedStartsAgain(t *testing.T) {
	t.Parallel()
	for name, while := range map[string]func(l *lab, kill func()){
		"while the provider runs":         func(_ *lab, kill func()) { kill() },
		"while the provider does not run": func(l *lab, kill func()) { l.must(l.host.Close()); kill(); l.open() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.make(nil)
			l.write(l.path("disk.qcow2"), "what the guest wrote")
			before := l.pid()
			while(l, func() {
				l.must(syscall.Kill(before, syscall.SIGKILL))
				l.await("the process to end", func() bool { return !alive(before) })
			})
			l.await("another process", func() bool {
				content, err := os.ReadFile(l.path("qemu.pid"))
				return err == nil && strings.TrimSpace(string(content)) != strconv.Itoa(before)
			})
			l.awaitPhase(host.Running)
			if content, err := os.ReadFile(l.path("disk.qcow2")); err != nil || string(content) != "what the guest wrote" {
				t.Errorf("the disk was made again: %q, %v", content, err)
			}
		})
	}
}

func TestAGuestThatPowersOffStaysOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.make(func(s *host.Spec) { s.CommandLine = standin.Off })
	l.awaitPhase(host.Stopped)
	before := l.pid()
	l.reopen()
	l.awaitPhase(host.Stopped)
	if l.pid() != before {
		t.Error("it was started again")
	}
}

// TestABrokenKVMIsNamed: QEMU calls it an internal error and goes no further.
func TestABrokenKVMIsNamed(t *testing.T) {
	t.Parallel()
	for acceleration, want := range map[string]string{
		"Auto": "QEMU says that it is internal-error, which may be a KVM of the host that cannot run the guest: choose the acceleration TCG",
		"TCG":  "QEMU says that it is internal-error",
	} {
		t.Run(acceleration, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.make(func(s *host.Spec) { s.CommandLine, s.Acceleration = standin.Broken, acceleration })
			l.awaitPhase(host.Stopped)
			if m, _ := l.host.Get("vm-1"); m.Message != want {
				t.Errorf("it says %q, want %q", m.Message, want)
			}
		})
	}
}

// TestDeletionEndsTheProcess has a grace of a minute for guests that obey, which the test's own patience does not
// outlast twice: an unneeded wait fails it.
func TestDeletionEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*host.Spec){
		"when the guest powers off":              nil,
		"when the guest is off already":          func(s *host.Spec) { s.CommandLine = standin.Off },
		"when the guest has no grace":            func(s *host.Spec) { s.Grace = 0; s.CommandLine = standin.Deaf },
		"when the guest does not power off":      func(s *host.Spec) { s.Grace = 100 * time.Millisecond; s.CommandLine = standin.Deaf },
		"after the provider went away over it":   func(s *host.Spec) { s.Grace = 3 * time.Second; s.CommandLine = standin.Deaf },
		"when it is a process without an answer": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.make(change)
			pid := l.pid()
			if strings.Contains(name, "without an answer") {
				l.must(syscall.Kill(pid, syscall.SIGSTOP))
			}
			l.must(l.host.Delete("vm-1"))
			if strings.Contains(name, "went away") {
				l.reopen()
				l.awaitPhase(host.Ending)
			}
			l.awaitGone()
			if alive(pid) {
				t.Errorf("process %d is left", pid)
			}
			if _, err := os.Stat(l.path("")); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

// TestAHalfMadeMachineIsFinished starts where an earlier provider was killed.
func TestAHalfMadeMachineIsFinished(t *testing.T) {
	t.Parallel()
	for name, left := range map[string][]string{
		"right after it was written down": nil,
		"while it made the disk":          {"disk.qcow2.partial"},
		"while it wrote the seed":         {"disk.qcow2", "seed.iso.partial"},
		"before it started the process":   {"disk.qcow2", "seed.iso", "lock"},
		"after an earlier process":        {"disk.qcow2", "seed.iso", "lock", "qmp.sock", "qemu.pid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.must(l.host.Close())
			l.must(os.MkdirAll(l.path(""), 0o700))
			l.write(l.path("machine.json"), `{"id":"vm-1","architecture":"amd64","cpus":1,"memoryMiB":64,"image":{"path":"empty.raw"},"imageFormat":"raw"}`)
			l.write(l.path("user-data"), "#cloud-config\n")
			for _, file := range left {
				l.write(l.path(file), "half")
			}
			l.open()
			l.awaitPhase(host.Running)
		})
	}
}

func TestOneProcessHasTheStateDirectory(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if second, err := host.Open(l.options); err == nil {
		t.Error("a second one opened it")
		l.must(second.Close())
	}
}

func TestAMachineThatCannotStartSaysWhyAndMayBeDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	spec := sample()
	spec.Image = image.Source{URL: "http://127.0.0.1:1/none", SHA256: strings.Repeat("0", 64)}
	if _, err := l.host.Create(spec, nil); err != nil {
		t.Fatal(err)
	}
	l.await("the reason", func() bool {
		m, _ := l.host.Get("vm-1")
		return m.Phase == host.Starting && strings.HasPrefix(m.Message, "downloading http://127.0.0.1:1/none: ")
	})
	l.must(l.host.Delete("vm-1"))
	l.awaitGone()
}

func TestARestartResetsTheGuestAndKeepsTheProcess(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.make(nil)
	pid := l.pid()
	for range 2 {
		l.must(l.host.Restart(t.Context(), "vm-1"))
	}
	l.wantBoots(2)
	l.reopen()
	l.awaitPhase(host.Running)
	l.must(l.host.Restart(t.Context(), "vm-1"))
	l.wantBoots(3)
	if now := l.pid(); now != pid {
		t.Errorf("process %d became %d", pid, now)
	}
	l.must(l.host.Restart(t.Context(), "vm-2"))
}

func TestAGuestThatIsOffIsNotReset(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.make(func(s *host.Spec) { s.CommandLine = standin.Off })
	if err := l.host.Restart(t.Context(), "vm-1"); !errors.Is(err, host.ErrNotRunning) {
		t.Errorf("got %v, want that it does not run", err)
	}
	l.wantBoots(0)
}

// wantBoots waits until guests have left on the console that they booted again so many times.
func (l *lab) wantBoots(want int) {
	l.t.Helper()
	l.await("it to boot again", func() bool {
		content, err := os.ReadFile(l.host.Console("vm-1"))
		if err != nil && !os.IsNotExist(err) {
			l.t.Fatal(err)
		}
		got := strings.Count(string(content), standin.Booted)
		if got > want {
			l.t.Fatalf("it booted again %d times, want %d", got, want)
		}
		return got == want
	})
}

// TestWhatTheGuestWritesIsKeptWithoutAProvider: all that its console holds is there once a provider runs again.
func TestWhatTheGuestWritesIsKeptWithoutAProvider(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.make(func(s *host.Spec) { s.CommandLine = standin.Chatty })
	want := strings.Repeat(standin.Line, 1<<20/len(standin.Line))
	l.await("the console", func() bool {
		content, _ := os.ReadFile(l.host.Console("vm-1"))
		return string(content) == want
	})
}

// TestAnImageThatNamesAnotherFileIsRefused: QEMU would show the guest whatever file, device or URL an image names.
func TestAnImageThatNamesAnotherFileIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	secret := filepath.Join(l.options.ImageDir, "secret")
	l.write(secret, "of the host")
	dataFile := standin.Disk(1<<20, "")
	dataFile[79] = 0b100
	for name, content := range map[string]string{
		"backing.qcow2": string(standin.Disk(1<<20, secret)),
		"url.qcow2":     string(standin.Disk(1<<20, "nbd://127.0.0.1:1/")),
		"data.qcow2":    string(dataFile),
		"raw.qcow2":     "not a disk of that format",
	} {
		l.write(filepath.Join(l.options.ImageDir, name), content)
		spec := sample()
		spec.Image, spec.ImageFormat = image.Source{Path: name}, "qcow2"
		if _, err := l.host.Create(spec, nil); !isFieldError(err, "spec.image") {
			t.Errorf("%s: got %v, want an error about spec.image", name, err)
		}
		if found, err := l.host.Image(spec); !isFieldError(err, "spec.image") {
			t.Errorf("%s: found %q and %v, want an error about spec.image", name, found, err)
		}
	}
	spec := sample()
	spec.ImageFormat = "vmdk"
	if _, err := l.host.Create(spec, nil); !isFieldError(err, "spec.image.format") {
		t.Errorf("vmdk: got %v, want an error about spec.image.format", err)
	}
	for name, content := range map[string][]byte{"a disk alone": standin.Disk(1<<20, ""), "a raw disk that looks like one over a file": standin.Disk(1<<20, secret)} {
		l.write(filepath.Join(l.options.ImageDir, "fine"), string(content))
		spec := sample()
		spec.Image, spec.ImageFormat = image.Source{Path: "fine"}, "qcow2"
		if strings.HasPrefix(name, "a raw") {
			spec.ImageFormat = "raw"
		}
		if _, err := l.host.Image(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestADownloadedImageThatNamesAnotherFileIsRefused: there it is known only after the download.
func TestADownloadedImageThatNamesAnotherFileIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	disk := standin.Disk(1<<20, "/etc/hostname")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(disk) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(disk)
	spec := sample()
	spec.Image, spec.ImageFormat = image.Source{URL: server.URL, SHA256: hex.EncodeToString(sum[:])}, "qcow2"
	if _, err := l.host.Create(spec, nil); err != nil {
		t.Fatal(err)
	}
	l.await("the reason", func() bool {
		m, _ := l.host.Get("vm-1")
		return m.Phase == host.Starting && strings.HasPrefix(m.Message, "spec.image: it names a backing file")
	})
	if _, err := os.Stat(l.path("disk.qcow2")); !os.IsNotExist(err) {
		t.Errorf("a disk was made over it: %v", err)
	}
	// The next one is refused at once, now that the image is here.
	spec.ID = "vm-2"
	if _, err := l.host.Create(spec, nil); !isFieldError(err, "spec.image") {
		t.Errorf("got %v, want an error about spec.image", err)
	}
}

func isFieldError(err error, field string) bool {
	found, ok := errors.AsType[*host.FieldError](err)
	return ok && found.Field == field
}
