// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package label writes the tags of an identity as labels whose keys and values have 63 lower-case letters, digits, - and _ at
// most, and reads them back. Every value is recoverable: other characters are escaped, and what is longer continues in
// further labels. The drivers of clouds with such labels call it, google and yandex.
package label

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"drover.io/infra-providers/driver"
)

// Prefix begins the keys of all labels of Drover.
const Prefix = "drover-"

// MachineUID is the label that everything of Drover has.
const MachineUID = Prefix + "machine-uid"

// maxLength is the maximum length of a value.
const maxLength = 63

// maxParts bounds the labels of one value: a name in Kubernetes has 253 characters, each of which needs three at most.
const maxParts = 13

// keys are the labels of the tags.
var keys = map[string]string{
	driver.TagMachineUID:       MachineUID,
	driver.TagMachine:          Prefix + "machine",
	driver.TagClusterUID:       Prefix + "cluster-uid",
	driver.TagClusterNamespace: Prefix + "cluster-namespace",
	driver.TagCluster:          Prefix + "cluster",
}

// Encode returns the labels of an identity.
func Encode(id driver.Identity) map[string]string {
	labels := map[string]string{}
	for tag, value := range id.Tags() {
		rest := escape(value)
		for n := 1; n == 1 || rest != ""; n++ {
			part := rest[:min(len(rest), maxLength)]
			labels[numbered(keys[tag], n)], rest = part, rest[len(part):]
		}
	}
	return labels
}

// Merge returns labels with those of an identity instead of any that Drover set before.
func Merge[V ~string](labels map[string]V, id driver.Identity) map[string]string {
	merged := Encode(id)
	for key, value := range labels {
		if !strings.HasPrefix(key, Prefix) {
			merged[key] = string(value)
		}
	}
	return merged
}

// Holds reports whether labels have those of an identity and no other ones of Drover.
func Holds(labels map[string]string, id driver.Identity) bool {
	return maps.Equal(labels, Merge(labels, id))
}

// Decode returns the identity that labels have. What cannot be read is empty.
func Decode(labels map[string]string) driver.Identity {
	tags := map[string]string{}
	for tag, key := range keys {
		value, n := labels[key], 2
		for ; n <= maxParts && len(labels[numbered(key, n-1)]) == maxLength; n++ {
			value += labels[numbered(key, n)]
		}
		tags[tag] = unescape(value)
	}
	id, _ := driver.FromTags(tags)
	return id
}

// First returns the first label of a tag with a value, which all labels of the identity have. What is longer than a label
// continues in further ones.
func First(tag, value string) (key, part string) {
	value = escape(value)
	return keys[tag], value[:min(len(value), maxLength)]
}

func numbered(key string, n int) string {
	if n == 1 {
		return key
	}
	return fmt.Sprintf("%s-%d", key, n)
}

// escape writes each byte that is no lower-case letter, digit or - as _ and two hexadecimal digits.
func escape(value string) string {
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// unescape is the reverse of escape, and empty for what escape does not write.
func unescape(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '_' {
			b.WriteByte(value[i])
			continue
		}
		if i+2 >= len(value) {
			return ""
		}
		c, err := hex.DecodeString(value[i+1 : i+3])
		if err != nil {
			return ""
		}
		b.Write(c)
		i += 2
	}
	if b.Len() > 0 && escape(b.String()) != value {
		return ""
	}
	return b.String()
}
