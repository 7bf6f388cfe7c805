// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package qcow2 reads the header of a disk in QEMU's format qcow2: its size, and whether all of its data is in that file.
// The author of an image has no rights on the host, and QEMU opens every file, device and URL in a header with its own
// rights. Package vm checks each image before QEMU opens it. It writes nothing.
package qcow2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Header has the fields of a header in use.
type Header struct {
	// Size is the size of the disk for the guest.
	Size int64
	// Backing is true for a disk that has the data of another file where it has none of its own.
	Backing bool
	// DataFile is true for a disk whose data is in another file.
	DataFile bool
	// Encrypted is true for a disk whose data needs a key.
	Encrypted bool
}

var (
	// ErrFormat means that the file is not a qcow2 disk, or that its header is not supported.
	ErrFormat = errors.New("it is not a qcow2 disk of version 2 or 3")
	// ErrBacking means that the disk has a backing file.
	ErrBacking = errors.New("it names a backing file; create an image without one: qemu-img convert -O qcow2 OLD NEW")
	// ErrDataFile means that the disk has its data in another file.
	ErrDataFile = errors.New("it names an external data file; create an image without one: qemu-img convert -O qcow2 OLD NEW")
	// ErrEncrypted means that the disk needs a key.
	ErrEncrypted = errors.New("it is encrypted, and there is no way to give a key")
)

// The header: https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst. All numbers are big-endian.
const (
	magic             = "QFI\xfb"
	versionAt         = 4
	backingOffsetAt   = 8
	backingSizeAt     = 16
	clusterBitsAt     = 20
	sizeAt            = 24
	cryptAt           = 32
	incompatibleAt    = 72
	headerLengthAt    = 100
	lengthOfVersion2  = 72
	leastOfVersion3   = 104
	leastClusterBits  = 9
	mostClusterBits   = 21
	dataFileBit       = 1 << 2
	knownIncompatible = 0b11111

	extensionEnd      = 0
	extensionDataFile = 0x44415441
)

// Read reads the header of a file.
func Read(path string) (Header, error) {
	file, err := os.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer file.Close() //nolint:errcheck // read only
	// The header and its extensions are in the first cluster.
	content, err := io.ReadAll(io.LimitReader(file, 1<<mostClusterBits))
	if err != nil {
		return Header{}, err
	}
	return Parse(content)
}

// Parse parses the first cluster of a disk. It fails with ErrFormat for an unknown incompatible feature, which may refer to
// another file.
func Parse(content []byte) (Header, error) {
	if len(content) < lengthOfVersion2 || !bytes.HasPrefix(content, []byte(magic)) {
		return Header{}, ErrFormat
	}
	length, features := uint64(lengthOfVersion2), uint64(0)
	switch version := word(content, versionAt); {
	case version == 2:
	case version == 3 && len(content) >= leastOfVersion3:
		length, features = uint64(word(content, headerLengthAt)), binary.BigEndian.Uint64(content[incompatibleAt:])
	default:
		return Header{}, ErrFormat
	}
	clusterBits, size := word(content, clusterBitsAt), binary.BigEndian.Uint64(content[sizeAt:])
	if clusterBits < leastClusterBits || clusterBits > mostClusterBits || size > 1<<62 {
		return Header{}, ErrFormat
	}
	if features&^knownIncompatible != 0 {
		return Header{}, fmt.Errorf("%w: it has unknown features", ErrFormat)
	}
	named, err := hasDataFile(content[:min(uint64(len(content)), 1<<clusterBits)], length)
	if err != nil {
		return Header{}, err
	}
	return Header{
		Size:      int64(size), //nolint:gosec // bounded above
		Backing:   binary.BigEndian.Uint64(content[backingOffsetAt:]) != 0 || word(content, backingSizeAt) != 0,
		DataFile:  features&dataFileBit != 0 || named,
		Encrypted: word(content, cryptAt) != 0,
	}, nil
}

// hasDataFile searches the extensions, which follow the header: each has a type, a length, that many bytes, and zeroes up
// to a multiple of eight.
func hasDataFile(cluster []byte, at uint64) (bool, error) {
	for {
		if at+8 > uint64(len(cluster)) {
			// QEMU stops at the end of the cluster or of the file.
			return false, nil
		}
		kind, length := word(cluster, at), uint64(word(cluster, at+4))
		switch kind {
		case extensionEnd:
			return false, nil
		case extensionDataFile:
			return true, nil
		}
		if at += 8 + (length+7)/8*8; at > uint64(len(cluster)) {
			return false, fmt.Errorf("%w: its header is cut off", ErrFormat)
		}
	}
}

// CheckSelfContained fails unless all data of the disk is in its file.
func (h Header) CheckSelfContained() error {
	switch {
	case h.Backing:
		return ErrBacking
	case h.DataFile:
		return ErrDataFile
	case h.Encrypted:
		return ErrEncrypted
	default:
		return nil
	}
}

func word(content []byte, at uint64) uint32 { return binary.BigEndian.Uint32(content[at:]) }
