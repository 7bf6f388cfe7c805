// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hypervisor

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

const (
	specFile     = "instance.json"
	userDataFile = "user-data"
	consoleFile  = "console.log"
	lockFile     = "lock"
	// unfinished marks folders that are being made or removed. Whoever opens the directory sweeps them.
	unfinished = ".unfinished-"
	// patience is how long a process waits for the one before it to let go of the directory.
	patience = 5 * time.Second
	// consoleLimit is the size at which a console starts over; one older part is kept.
	consoleLimit = 256 << 10
)

// store is the state directory.
type store struct {
	dir  string
	lock *os.File
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := take(lock, patience); err != nil {
		return nil, errors.Join(fmt.Errorf("another process has it: %w", err), lock.Close())
	}
	return &store{dir: dir, lock: lock}, nil
}

// take locks a file. The kernel drops the lock with the process, however it dies; one that is still
// shutting down gets some time for it.
func take(lock *os.File, patience time.Duration) error {
	for tick := patience / 50; ; patience -= tick {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || patience <= 0 {
			return err
		}
		time.Sleep(tick)
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

// load sweeps what a killed process left half done and returns the instances.
func (s *store) load() ([]Spec, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var specs []Spec
	for _, entry := range entries {
		switch {
		case !entry.IsDir():
		case strings.HasPrefix(entry.Name(), unfinished):
			if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
				return nil, err
			}
		default:
			var spec Spec
			content, err := os.ReadFile(s.path(entry.Name(), specFile))
			if err == nil {
				err = json.Unmarshal(content, &spec)
			}
			if err != nil {
				return nil, fmt.Errorf("instance %q: %w", entry.Name(), err)
			}
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

// create makes the folder aside and renames it, so that an instance is there as a whole or not at all.
// The rename fails when the instance exists.
func (s *store) create(spec Spec, userData []byte) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	aside, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(aside, specFile), content, 0o600),
		os.WriteFile(filepath.Join(aside, userDataFile), userData, 0o600),
	)
	if err == nil {
		err = os.Rename(aside, filepath.Join(s.dir, spec.ID))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	return nil
}

// save replaces what is stored of an instance, as a whole or not at all.
func (s *store) save(spec Spec) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	aside := s.path(spec.ID, unfinished+specFile)
	if err := os.WriteFile(aside, content, 0o600); err != nil {
		return err
	}
	return os.Rename(aside, s.path(spec.ID, specFile))
}

// remove renames the folder before it empties it, so that a half removed instance never comes back.
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

func (s *store) path(id, name string) string { return filepath.Join(s.dir, id, name) }

// disk is the folder of one instance.
type disk struct {
	store *store
	id    string
}

// Load returns nil when there is no such file.
func (d disk) Load(name string) []byte {
	content, err := os.ReadFile(d.store.path(d.id, name))
	if err != nil {
		return nil
	}
	return content
}

// Save replaces a file as a whole. It fails once the instance is deleted.
func (d disk) Save(name string, content []byte) error {
	aside := d.store.path(d.id, name+".new")
	if err := os.WriteFile(aside, content, 0o600); err != nil {
		return err
	}
	return os.Rename(aside, d.store.path(d.id, name))
}

// log appends a line to the console.
func (d disk) log(line string) {
	name := d.store.path(d.id, consoleFile)
	if info, err := os.Stat(name); err == nil && info.Size() > consoleLimit {
		_ = os.Rename(name, name+".1")
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the instance is deleted
	}
	defer file.Close() //nolint:errcheck // a console that loses a line harms nobody
	_, _ = file.WriteString(line + "\n")
}
