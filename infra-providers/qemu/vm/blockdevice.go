// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"

	"drover.io/infra-providers/qemu/qcow2"
)

// inspect fails with a FieldError for an image that QEMU must not open: one whose data are not in that file alone.
// QEMU would read the host's files, devices and network for whoever made the image. A raw image has no header.
func inspect(path, format string) error {
	switch format {
	case "raw":
		return nil
	case "qcow2":
		header, err := qcow2.Read(path)
		if err == nil {
			err = header.Alone()
		}
		for _, unfit := range []error{qcow2.ErrFormat, qcow2.ErrBacking, qcow2.ErrDataFile, qcow2.ErrEncrypted} {
			if errors.Is(err, unfit) {
				return &FieldError{Field: "spec.image", Err: err}
			}
		}
		return err
	default:
		return &FieldError{Field: "spec.image.format", Err: fmt.Errorf("%q is not one of qcow2, raw", format)}
	}
}

// node is a block device of QEMU: a format over a file. Nothing about it is left to what the file says of itself.
type node struct {
	Name     string   `json:"node-name,omitempty"`
	Driver   string   `json:"driver"`
	ReadOnly bool     `json:"read-only,omitempty"`
	Discard  string   `json:"discard,omitempty"`
	File     nodeFile `json:"file"`
	// Backing is null for a format that could have one, and left out for one that could not.
	Backing json.RawMessage `json:"backing,omitempty"`
}

type nodeFile struct {
	Driver   string `json:"driver"`
	Filename string `json:"filename"`
	ReadOnly bool   `json:"read-only,omitempty"`
	Discard  string `json:"discard,omitempty"`
}

// writable is a disk of the machine, over the image if there is one.
func writable(name, path string, over *node) node {
	return node{
		Name: name, Driver: "qcow2", Discard: "unmap",
		File:    nodeFile{Driver: "file", Filename: path, Discard: "unmap"},
		Backing: text(over),
	}
}

// readOnly is an image or the seed.
func readOnly(name, path, format string) node {
	n := node{Name: name, Driver: format, ReadOnly: true, File: nodeFile{Driver: "file", Filename: path, ReadOnly: true}}
	if format != "raw" {
		n.Backing = text(nil)
	}
	return n
}

// text is a node as an argument of QEMU.
func text(n *node) json.RawMessage {
	content, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings and booleans can always be written
	}
	return content
}
