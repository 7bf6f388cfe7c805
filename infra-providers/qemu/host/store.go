// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Files in the folder of a machine.
const (
	specFile     = "machine.json"
	userDataFile = "user-data"
	deletingFile = "deleting"
	lockFile     = "lock"
	pidFile      = "qemu.pid"
	logFile      = "qemu.log"
	consoleFile  = "console.log"
	socketFile   = "qmp.sock"
	seedFile     = "seed.iso"
	diskFile     = "disk.qcow2"
)

const (
	machinesFolder = "machines"
	// unfinished marks folders that are being made or removed. Whoever opens the directory sweeps them.
	unfinished = ".unfinished-"
	// patience is how long a process waits for the one before it to let go of the directory.
	patience = 5 * time.Second
)

// store is the state directory. A machine exists exactly as long as its folder does: the folder appears complete
// by one rename and disappears by one rename.
type store struct {
	dir  string
	lock *os.File
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, machinesFolder), 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir) // QEMU works elsewhere
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(patience / 50) {
		lock, err := flock(filepath.Join(dir, lockFile))
		if err == nil {
			return &store{dir: filepath.Join(dir, machinesFolder), lock: lock}, nil
		}
		if !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return nil, fmt.Errorf("another process has it: %w", err)
		}
	}
}

func (s *store) close() error { return s.lock.Close() }

// name is what tells this state directory from every other one. The file that is locked holds it, from the first time
// on; whoever asks has the lock. What a power cut left of it there was told to nobody.
func (s *store) name() (string, error) {
	content, err := io.ReadAll(io.NewSectionReader(s.lock, 0, 64))
	if err != nil {
		return "", err
	}
	if known, err := uuid.ParseBytes(content); err == nil {
		return known.String(), nil
	}
	name := uuid.NewString()
	_, err = s.lock.WriteAt([]byte(name), 0)
	return name, errors.Join(err, s.lock.Truncate(int64(len(name))), s.lock.Sync())
}

// load sweeps what a killed process left half done and returns the machines.
func (s *store) load() ([]Spec, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var specs []Spec
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unfinished) {
			if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
				return nil, err
			}
			continue
		}
		var spec Spec
		content, err := os.ReadFile(s.path(entry.Name(), specFile))
		if err == nil {
			err = json.Unmarshal(content, &spec)
		}
		if err != nil {
			return nil, fmt.Errorf("machine %q: %w", entry.Name(), err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// create writes down what a machine is before anything of it is made.
func (s *store) create(spec Spec, userData []byte) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	aside, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(writeFile(filepath.Join(aside, specFile), content), writeFile(filepath.Join(aside, userDataFile), userData))
	if err == nil {
		err = os.Rename(aside, filepath.Join(s.dir, spec.ID))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	return nil
}

// rewrite replaces what is written down by one rename, so that whoever dies here leaves the old or the new.
func (s *store) rewrite(spec Spec) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	aside := s.path(spec.ID, unfinished+specFile)
	if err := writeFile(aside, content); err != nil {
		return err
	}
	return os.Rename(aside, s.path(spec.ID, specFile))
}

// remove renames the folder before it empties it, so that a half removed machine never comes back.
func (s *store) remove(id string) error {
	aside, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return err
	}
	err = os.Rename(filepath.Join(s.dir, id), filepath.Join(aside, id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(aside))
}

// markDeleting makes the deletion go on after a restart.
func (s *store) markDeleting(id string) error {
	if !s.deletingSince(id).IsZero() {
		return nil
	}
	return writeFile(s.path(id, deletingFile), nil)
}

// deletingSince is when the deletion was asked for; zero when it was not.
func (s *store) deletingSince(id string) time.Time {
	info, err := os.Stat(s.path(id, deletingFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (s *store) path(id, name string) string { return filepath.Join(s.dir, id, name) }

// writeFile writes a file that survives a power cut.
func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

var errLocked = errors.New("locked")

// flock opens and locks a file. The kernel drops the lock when the last process is gone that inherited it, however
// it ends, so a lock that can be taken proves that nobody is left.
func flock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
