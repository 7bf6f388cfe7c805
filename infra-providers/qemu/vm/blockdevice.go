// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"errors"
	"fmt"

	"drover.io/infra-providers/qemu/qcow2"
)

// CheckImage fails with FieldError for an image that QEMU must not open: one whose data is not in its own file alone. QEMU
// would read files, devices and network services of the host for the author of the image. A raw image has no header.
func CheckImage(path, format string) error {
	switch format {
	case "raw":
		return nil
	case "qcow2":
		header, err := qcow2.Read(path)
		if err == nil {
			err = header.CheckSelfContained()
		}
		for _, refused := range []error{qcow2.ErrFormat, qcow2.ErrBacking, qcow2.ErrDataFile, qcow2.ErrEncrypted} {
			if errors.Is(err, refused) {
				return &FieldError{Field: "spec.image", Err: err}
			}
		}
		return err
	default:
		return &FieldError{Field: "spec.image.format", Err: fmt.Errorf("%q is not one of qcow2, raw", format)}
	}
}

// node is a block device of QEMU: a format and its file. Nothing is read from the header of the file.
type node struct {
	Name     string   `json:"node-name,omitempty"`
	Driver   string   `json:"driver"`
	ReadOnly bool     `json:"read-only,omitempty"`
	Discard  string   `json:"discard,omitempty"`
	File     nodeFile `json:"file"`
	// Backing is null for a format that may have a backing file, and absent for one that may not.
	Backing json.RawMessage `json:"backing,omitempty"`
}

type nodeFile struct {
	Driver   string `json:"driver"`
	Filename string `json:"filename"`
	ReadOnly bool   `json:"read-only,omitempty"`
	Discard  string `json:"discard,omitempty"`
}

// writable returns a disk of the machine, with the image as its backing file if there is one.
func writable(name, path string, backing *node) node {
	return node{
		Name: name, Driver: "qcow2", Discard: "unmap",
		File:    nodeFile{Driver: "file", Filename: path, Discard: "unmap"},
		Backing: toJSON(backing),
	}
}

// readOnly returns the device of an image or of the seed.
func readOnly(name, path, format string) node {
	n := node{Name: name, Driver: format, ReadOnly: true, File: nodeFile{Driver: "file", Filename: path, ReadOnly: true}}
	if format != "raw" {
		n.Backing = toJSON(nil)
	}
	return n
}

// toJSON returns a node as an argument of QEMU.
func toJSON(n *node) json.RawMessage {
	content, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings and booleans can always be marshalled
	}
	return content
}
