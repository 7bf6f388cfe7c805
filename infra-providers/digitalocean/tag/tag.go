// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tag writes the identity of a machine into the tags of DigitalOcean and reads it back. A tag there has no value,
// has letters, digits, colons, dashes and underscores only, at most 255 of them, and does not distinguish upper and
// lower case. So a tag is a key, a colon and an encoded value, all in lower case.
package tag

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

const (
	// Drover is on everything that a Droplet or volume of Drover is.
	Drover = "drover"
	// ReservedIP is on a Droplet whose machine has a reserved IP.
	ReservedIP = "drover-reserved-ip"
	// Volumes is on a Droplet whose machine has volumes.
	Volumes = "drover-volumes"

	machineUID       = "drover-machine-uid:"
	machine          = "drover-machine:"
	clusterUID       = "drover-cluster-uid:"
	clusterNamespace = "drover-cluster-namespace:"
	cluster          = "drover-cluster:"

	// maxTag is the maximum length of a tag.
	maxTag = 255
)

// Of returns the tags of an identity.
func Of(id driver.Identity) []string {
	return []string{
		Drover, Machine(id.UID), name(id), Cluster(id.Owner.UID),
		clusterNamespace + Encode(id.Owner.Namespace), cluster + Encode(id.Owner.Name),
	}
}

// OfMachine returns the tags that only one machine has.
func OfMachine(id driver.Identity) []string { return []string{Machine(id.UID), name(id)} }

// Machine returns the tag of everything that is of one machine.
func Machine(uid types.UID) string { return machineUID + Encode(string(uid)) }

// Cluster returns the tag of everything that is of one Cluster.
func Cluster(uid types.UID) string { return clusterUID + Encode(string(uid)) }

// name returns the tag of the machine's name. It ends with the UID, so that it can be deleted with the machine: another
// machine may have the same name.
func name(id driver.Identity) string {
	return machine + Encode(id.Name) + ":" + Encode(string(id.UID))
}

// Check returns an error if a tag of an identity would be too long.
func Check(id driver.Identity) error {
	for _, tag := range Of(id) {
		if len(tag) > maxTag {
			return fmt.Errorf("tag %q would have %d characters, the cloud permits %d", tag, len(tag), maxTag)
		}
	}
	return nil
}

// Has reports whether a tag is one of several.
func Has(tags []string, tag string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, tag) })
}

// Valid reports whether the cloud can have a tag.
func Valid(tag string) bool { return len(tag) <= maxTag }

// Identity returns the identity that tags name, as far as they do. A key with two values names nothing.
func Identity(tags []string) driver.Identity {
	values := map[string]string{}
	for _, tag := range tags {
		tag = strings.ToLower(tag)
		key, value, ok := strings.Cut(tag, ":")
		if _, twice := values[key]; twice {
			values[key] = ""
		} else if ok {
			values[key] = value
		}
	}
	decoded := func(key string) string { return Decode(values[strings.TrimSuffix(key, ":")]) }
	machineName, ofUID, _ := strings.Cut(values[strings.TrimSuffix(machine, ":")], ":")
	id := driver.Identity{
		UID:  types.UID(decoded(machineUID)),
		Name: Decode(machineName),
		Owner: driver.Owner{
			UID: types.UID(decoded(clusterUID)), Namespace: decoded(clusterNamespace), Name: decoded(cluster),
		},
	}
	if Decode(ofUID) != string(id.UID) {
		id.Name = ""
	}
	return id
}

// Stale returns those of the tags that name another Cluster UID than an identity.
func Stale(tags []string, id driver.Identity) (stale []string) {
	for _, tag := range tags {
		if strings.HasPrefix(strings.ToLower(tag), clusterUID) && !strings.EqualFold(tag, Cluster(id.Owner.UID)) {
			stale = append(stale, tag)
		}
	}
	return stale
}

// Encode writes every byte but lower-case letters, digits and dashes as an underscore and its hexadecimal number.
func Encode(value string) string {
	var out strings.Builder
	for _, b := range []byte(value) {
		if plain(b) {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "_%02x", b)
		}
	}
	return out.String()
}

// Decode is the reverse of Encode; empty for what Encode never returns.
func Decode(value string) string {
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		if plain(value[i]) {
			out.WriteByte(value[i])
			continue
		}
		if value[i] != '_' || i+3 > len(value) {
			return ""
		}
		b, err := strconv.ParseUint(value[i+1:i+3], 16, 8)
		if err != nil || plain(byte(b)) {
			return ""
		}
		out.WriteByte(byte(b))
		i += 2
	}
	return out.String()
}

func plain(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' }
