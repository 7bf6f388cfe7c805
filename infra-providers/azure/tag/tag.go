// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tag writes the tags of an identity as tags of Azure and reads them back. The name of a tag has none of <>%&\?/ and
// is the same in any case; a value has 256 characters, more than any name in Kubernetes. The azure driver calls it.
package tag

import (
	"maps"
	"strings"
	"time"

	"drover.io/infra-providers/driver"
)

// Prefix begins the names of all tags of Drover.
const Prefix = "drover-"

// MachineUID is the tag that everything of Drover has.
const MachineUID = Prefix + "machine-uid"

// requested has the time of the request for what Azure records no time of creation of. It is no part of an identity.
const requested = Prefix + "requested"

// names are the tags of Azure for those of a driver.
var names = map[string]string{
	driver.TagMachineUID:       MachineUID,
	driver.TagMachine:          Prefix + "machine",
	driver.TagClusterUID:       Prefix + "cluster-uid",
	driver.TagClusterNamespace: Prefix + "cluster-namespace",
	driver.TagCluster:          Prefix + "cluster",
}

// Encode returns the tags of an identity.
func Encode(id driver.Identity) map[string]*string {
	tags := map[string]*string{}
	for known, value := range id.Tags() {
		tags[names[known]] = &value
	}
	return tags
}

// Merge returns tags with those of an identity instead of any that Drover set before.
func Merge(tags map[string]*string, id driver.Identity) map[string]*string {
	merged := Encode(id)
	for name, value := range tags {
		if !isOurs(name) {
			merged[name] = value
		}
	}
	return merged
}

// Holds reports whether tags have those of an identity and no other ones of Drover.
func Holds(tags map[string]*string, id driver.Identity) bool {
	ours := map[string]string{}
	for name, value := range tags {
		if isOurs(name) && value != nil {
			ours[strings.ToLower(name)] = *value
		}
	}
	wanted := map[string]string{}
	for name, value := range Encode(id) {
		wanted[name] = *value
	}
	return maps.Equal(ours, wanted)
}

// Decode returns the identity that tags have. What is missing is empty.
func Decode(tags map[string]*string) driver.Identity {
	found := map[string]string{}
	for name, value := range tags {
		if value != nil {
			found[strings.ToLower(name)] = *value
		}
	}
	known := map[string]string{}
	for ours, name := range names {
		known[ours] = found[name]
	}
	id, _ := driver.FromTags(known)
	return id
}

// WithRequested adds the time of a request to tags.
func WithRequested(tags map[string]*string, at time.Time) map[string]*string {
	text := at.UTC().Format(time.RFC3339)
	tags[requested] = &text
	return tags
}

// Requested returns the time of the request that tags have, or zero.
func Requested(tags map[string]*string) (at time.Time) {
	for name, value := range tags {
		if value != nil && strings.EqualFold(name, requested) {
			at, _ = time.Parse(time.RFC3339, *value) // anything else is no time
		}
	}
	return at
}

func isOurs(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), Prefix) && !strings.EqualFold(name, requested)
}
