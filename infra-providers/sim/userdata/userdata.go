// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package userdata is cloud-init and Ignition for simulated hosts: it returns the files, the hostname and the commands that
// the user data and the metadata of an instance describe.
//
// It runs no command and uses neither network nor file system. Formats are one line each in the list of Parse. The
// hypervisor calls it when a host boots.
package userdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Metadata is the instance metadata of the cloud's metadata service.
type Metadata struct {
	InstanceID    string
	LocalHostname string
	ProviderID    string
	Zone          string
	InstanceType  string
	LocalIPv4     string
}

// Disk is the result of the user data on the host.
type Disk struct {
	// Files by absolute path.
	Files map[string][]byte
	// Hostname is the name of the host.
	Hostname string
	// Commands are the commands that would run, one line each.
	Commands []string
	// Warnings are what a host would log without failing.
	Warnings []string
}

// limit bounds the size of decompressed data.
const limit = 64 << 20

// format is one format of user data.
type format struct {
	name  string
	is    func(data []byte) bool
	parse func(data []byte, meta Metadata) (*Disk, error)
}

// Parse parses user data in any supported format, compressed or not.
func Parse(data []byte, meta Metadata) (*Disk, error) {
	data, err := gunzip(data)
	if err != nil {
		return nil, err
	}
	for _, known := range []format{
		{"jinja cloud-config", startsWith("## template: jinja"), parseTemplate},
		{"cloud-config", startsWith("#cloud-config"), parseCloudConfig},
		{"ignition", isIgnition, parseIgnition},
	} {
		if known.is(data) {
			disk, err := known.parse(data, meta)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", known.name, err)
			}
			return disk, nil
		}
	}
	return nil, errors.New(`user data is neither "#cloud-config", "## template: jinja" nor Ignition`)
}

func startsWith(line string) func([]byte) bool {
	return func(data []byte) bool {
		first, _, _ := bytes.Cut(bytes.TrimLeft(data, "\ufeff"), []byte("\n"))
		return string(bytes.TrimSpace(first)) == line
	}
}

// gunzip returns data as it is unless it is compressed.
func gunzip(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	if len(plain) > limit {
		return nil, fmt.Errorf("decompressing: more than %d bytes", limit)
	}
	return plain, nil
}
