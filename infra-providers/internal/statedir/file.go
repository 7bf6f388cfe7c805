// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// olderPart is the suffix of the older part of a file that AppendBounded has started again.
const olderPart = ".1"

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")

// Lock opens and locks a file. The kernel releases the lock when the last process that inherited it has ended, for any
// reason, so a lock that can be taken proves that no such process is left.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// AppendBounded appends to a file, which starts again where it would exceed the limit. One older part is kept, with the
// suffix ".1".
func AppendBounded(path string, content []byte, limit int64) error {
	if info, err := os.Stat(path); err == nil && info.Size()+int64(len(content)) > limit {
		if err := os.Rename(path, path+olderPart); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// ReadEnd returns the last bytes of a file that is appended to by AppendBounded, its older part included; nothing where
// there is none.
func ReadEnd(path string, limit int64) ([]byte, error) {
	var end []byte
	for _, part := range []string{path, path + olderPart} {
		content, err := readEnd(part, limit-int64(len(end)))
		if err != nil {
			return nil, err
		}
		end = append(content, end...)
	}
	return end, nil
}

func readEnd(path string, limit int64) (_ []byte, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(max(0, info.Size()-limit), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, limit))
}
