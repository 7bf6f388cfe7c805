// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package statedir keeps the instances of a provider that runs them on its own host. A state directory has one folder per
// instance with its specification, and one process at a time holds its lock.
//
// An instance exists exactly as long as its folder: the folder appears complete by one rename and disappears by one
// rename, so a process that is killed leaves an instance as a whole or not at all. Packages qemu/host and sim/hypervisor
// call it; the caller owns the content of a specification.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	lockFile     = "lock"
	userDataFile = "user-data"
	// unfinished is the prefix of folders and files that are being created or deleted. Load deletes such folders.
	unfinished = ".unfinished-"
	// lockTimeout is how long Open waits for the process that holds the lock to end.
	lockTimeout = 5 * time.Second
)

// Options configure a state directory.
type Options struct {
	// Path is the directory. It is created if it does not exist.
	Path string
	// Instances is the folder in it that has the folders of the instances; empty means the directory itself.
	Instances string
	// SpecFile is the name of the file with the specification of an instance.
	SpecFile string
	// Sync makes every write durable, so that it survives a power failure.
	Sync bool
}

// Dir is a state directory whose instances have specifications of type S.
type Dir[S any] struct {
	options Options
	path    string
	lock    *os.File
}

// Open locks a state directory for this process. It fails while another process holds the lock.
func Open[S any](options Options) (*Dir[S], error) {
	path, err := filepath.Abs(options.Path) // processes of instances may have another working directory
	if err != nil {
		return nil, err
	}
	instances := filepath.Join(path, options.Instances)
	if err := os.MkdirAll(instances, 0o700); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 50) {
		lock, err := Lock(filepath.Join(path, lockFile))
		if err == nil {
			return &Dir[S]{options: options, path: instances, lock: lock}, nil
		}
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			return nil, fmt.Errorf("locking it for this process: %w", err)
		}
	}
}

// Close releases the lock.
func (d *Dir[S]) Close() error { return d.lock.Close() }

// Name returns an identifier that is unique to this state directory and stable. It is in the locked file, so no other
// process writes it at the same time; one that was written partially was never returned.
func (d *Dir[S]) Name() (string, error) {
	content, err := io.ReadAll(io.NewSectionReader(d.lock, 0, 64))
	if err != nil {
		return "", err
	}
	if known, err := uuid.ParseBytes(content); err == nil {
		return known.String(), nil
	}
	name := uuid.NewString()
	_, err = d.lock.WriteAt([]byte(name), 0)
	return name, errors.Join(err, d.lock.Truncate(int64(len(name))), d.lock.Sync())
}

// Load deletes what a killed process left unfinished and returns the specifications of all instances.
func (d *Dir[S]) Load() ([]S, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var specs []S
	for _, entry := range entries {
		switch {
		case !entry.IsDir():
		case strings.HasPrefix(entry.Name(), unfinished):
			if err := os.RemoveAll(filepath.Join(d.path, entry.Name())); err != nil {
				return nil, err
			}
		default:
			spec, err := d.read(entry.Name())
			if err != nil {
				return nil, fmt.Errorf("instance %q: %w", entry.Name(), err)
			}
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

func (d *Dir[S]) read(id string) (spec S, err error) {
	content, err := os.ReadFile(d.Path(id, d.options.SpecFile))
	if err == nil {
		err = json.Unmarshal(content, &spec)
	}
	return spec, err
}

// Create creates the folder of an instance. It fails when the instance exists.
func (d *Dir[S]) Create(id string, spec S, userData []byte) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(d.path, unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(
		d.write(filepath.Join(folder, d.options.SpecFile), content),
		d.write(filepath.Join(folder, userDataFile), userData),
	)
	if err == nil {
		err = os.Rename(folder, d.Path(id, ""))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	return nil
}

// Save replaces the specification of an instance as a whole.
func (d *Dir[S]) Save(id string, spec S) error {
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return d.Replace(id, d.options.SpecFile, content)
}

// Replace replaces a file of an instance as a whole. It fails once the instance is deleted.
func (d *Dir[S]) Replace(id, name string, content []byte) error {
	temporary := d.Path(id, unfinished+name)
	if err := d.write(temporary, content); err != nil {
		return err
	}
	return os.Rename(temporary, d.Path(id, name))
}

// Delete deletes the folder of an instance. The folder is renamed first, so that an instance that is partially deleted
// is never loaded again. It creates nothing, because the disk may be full, and succeeds when there is none.
func (d *Dir[S]) Delete(id string) error {
	deleted := d.Path(unfinished+id, "")
	if err := os.RemoveAll(deleted); err != nil { // what an earlier call left
		return err
	}
	if err := os.Rename(d.Path(id, ""), deleted); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(deleted)
}

// UserData is the path of the user data of an instance.
func (d *Dir[S]) UserData(id string) string { return d.Path(id, userDataFile) }

// Path is the path of a file of an instance, or of its folder without a name.
func (d *Dir[S]) Path(id, name string) string { return filepath.Join(d.path, id, name) }

func (d *Dir[S]) write(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if d.options.Sync {
		err = errors.Join(err, file.Sync())
	}
	return errors.Join(err, file.Close())
}
