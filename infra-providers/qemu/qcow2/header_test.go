// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qcow2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/qemu/qcow2"
)

// disk is the header of version 3 of an empty disk of a mebibyte, with one extension, in a file of one cluster.
func disk(change func([]byte)) []byte {
	content := make([]byte, 1<<16)
	copy(content, "QFI\xfb")
	put := binary.BigEndian
	put.PutUint32(content[4:], 3)
	put.PutUint32(content[20:], 16)
	put.PutUint64(content[24:], 1<<20)
	put.PutUint32(content[100:], 104)
	extension(content, 104, 0x6803f857, "feature names")
	if change != nil {
		change(content)
	}
	return content
}

func extension(content []byte, at int, kind uint32, data string) {
	binary.BigEndian.PutUint32(content[at:], kind)
	binary.BigEndian.PutUint32(content[at+4:], uint32(len(data))) //nolint:gosec // short
	copy(content[at+8:], data)
}

// backed gives a disk a backing file.
func backed(name string) func([]byte) {
	return func(content []byte) {
		binary.BigEndian.PutUint64(content[8:], 512)
		binary.BigEndian.PutUint32(content[16:], uint32(len(name))) //nolint:gosec // short
		copy(content[512:], name)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content []byte
		want    qcow2.Header
		err     error
	}{
		"takes a disk of version 3": {disk(nil), qcow2.Header{Size: 1 << 20}, nil},
		"takes a disk of version 2": {disk(func(c []byte) {
			binary.BigEndian.PutUint32(c[4:], 2)
			clear(c[72:])
		}), qcow2.Header{Size: 1 << 20}, nil},
		"takes one that was not closed, is compressed, and has extended tables": {disk(func(c []byte) { c[79] = 0b11001 }), qcow2.Header{Size: 1 << 20}, nil},
		"finds a device of the host":        {disk(backed("/dev/sda")), qcow2.Header{Size: 1 << 20, Backing: true}, qcow2.ErrBacking},
		"finds a URL":                       {disk(backed("nbd://127.0.0.1/x")), qcow2.Header{Size: 1 << 20, Backing: true}, qcow2.ErrBacking},
		"finds nested options":              {disk(backed(`json:{"driver":"raw","file":{"driver":"http","url":"http://127.0.0.1/"}}`)), qcow2.Header{Size: 1 << 20, Backing: true}, qcow2.ErrBacking},
		"finds a backing file of version 2": {disk(func(c []byte) { binary.BigEndian.PutUint32(c[4:], 2); clear(c[72:]); backed("/etc/shadow")(c) }), qcow2.Header{Size: 1 << 20, Backing: true}, qcow2.ErrBacking},
		"finds a backing file of no length": {disk(func(c []byte) { c[15] = 1 }), qcow2.Header{Size: 1 << 20, Backing: true}, qcow2.ErrBacking},
		"finds the bit of a data file":      {disk(func(c []byte) { c[79] = 0b100 }), qcow2.Header{Size: 1 << 20, DataFile: true}, qcow2.ErrDataFile},
		"finds the name of a data file": {disk(func(c []byte) { extension(c, 128, 0x44415441, "/etc/shadow") }),
			qcow2.Header{Size: 1 << 20, DataFile: true}, qcow2.ErrDataFile},
		"finds that it is encrypted":           {disk(func(c []byte) { c[35] = 2 }), qcow2.Header{Size: 1 << 20, Encrypted: true}, qcow2.ErrEncrypted},
		"refuses nothing at all":               {nil, qcow2.Header{}, qcow2.ErrFormat},
		"refuses a header that is cut off":     {disk(nil)[:80], qcow2.Header{}, qcow2.ErrFormat},
		"refuses another format":               {bytes.Repeat([]byte("x"), 1024), qcow2.Header{}, qcow2.ErrFormat},
		"refuses qcow's first version":         {disk(func(c []byte) { binary.BigEndian.PutUint32(c[4:], 1) }), qcow2.Header{}, qcow2.ErrFormat},
		"refuses a version to come":            {disk(func(c []byte) { binary.BigEndian.PutUint32(c[4:], 4) }), qcow2.Header{}, qcow2.ErrFormat},
		"refuses features to come":             {disk(func(c []byte) { c[79] = 1 << 5 }), qcow2.Header{}, qcow2.ErrFormat},
		"refuses an extension without its end": {disk(func(c []byte) { binary.BigEndian.PutUint32(c[108:], 1<<31) }), qcow2.Header{}, qcow2.ErrFormat},
		"refuses clusters that QEMU has not":   {disk(func(c []byte) { c[23] = 63 }), qcow2.Header{}, qcow2.ErrFormat},
		"refuses a size that is no number":     {disk(func(c []byte) { c[24] = 0xff }), qcow2.Header{}, qcow2.ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "disk")
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := qcow2.Read(path)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if err == nil {
				err = got.CheckSelfContained()
			}
			if !errors.Is(err, test.err) {
				t.Errorf("got %v, want %v", err, test.err)
			}
		})
	}
}

// FuzzParse looks for headers that are not understood and not refused.
func FuzzParse(f *testing.F) {
	f.Add(disk(nil))
	f.Add(disk(backed("/dev/sda")))
	f.Add(disk(func(c []byte) { c[79] = 0b100 }))
	f.Fuzz(func(t *testing.T, content []byte) {
		header, err := qcow2.Parse(content)
		if err != nil || header.CheckSelfContained() != nil {
			return
		}
		if len(content) < 72 || header.Size < 0 || binary.BigEndian.Uint64(content[8:]) != 0 {
			t.Errorf("taken: %+v", header)
		}
	})
}
