// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package userdata does to a simulated host's disk what cloud-init would do to a real one: it takes the
// user data of the instance and its metadata, and comes back with the files, the hostname and the commands
// that they describe.
//
// It runs nothing and touches no network or file system. Formats are one line each in the list of Parse.
// The hypervisor calls it when a host boots.
package userdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Metadata is what the cloud's metadata service tells a host about itself.
type Metadata struct {
	InstanceID    string
	LocalHostname string
	ProviderID    string
	Zone          string
	InstanceType  string
	LocalIPv4     string
}

// Disk is what the user data left on the host.
type Disk struct {
	// Files by absolute path.
	Files map[string][]byte
	// Hostname is the host's name.
	Hostname string
	// Commands are the commands that would run, one line each.
	Commands []string
	// Warnings are things that a real host would log and go on from.
	Warnings []string
}

// limit bounds what compressed data may grow to.
const limit = 64 << 20

// format is one way to write user data.
type format struct {
	name  string
	is    func(data []byte) bool
	parse func(data []byte, meta Metadata) (*Disk, error)
}

// Parse reads user data, compressed or not, in any format it knows.
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
