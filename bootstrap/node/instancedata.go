// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"regexp"
	"slices"
	"strings"
)

// standardMetadata are the keys below v1 that cloud-init gives every instance, of whatever cloud. What is below ds
// depends on the cloud.
var standardMetadata = []string{
	"availability_zone", "cloud_id", "cloud_name", "distro", "distro_release", "distro_version", "instance_id", "kernel_release",
	"local_hostname", "machine", "platform", "python_version", "region", "subplatform", "system_platform", "variant",
}

// metadataKey is the first part of an expression: its root and, for v1, the key, as v1.region or v1['region'].
var metadataKey = regexp.MustCompile(`^-?\s*(ds|v1)(?:\s*\.\s*([A-Za-z0-9_]+)|\s*\[\s*'([^']+)'\s*\])`)

// knownMetadata reports whether a jinja expression may name instance metadata. Of what does not exist cloud-init makes a
// text that begins with CI_MISSING_JINJA_VAR, and a machine with such a name or providerID never becomes a Node.
func knownMetadata(expression string) bool {
	found := metadataKey.FindStringSubmatch(expression)
	if found == nil {
		return false
	}
	key := strings.ReplaceAll(found[2]+found[3], "-", "_")
	return found[1] == "ds" || slices.Contains(standardMetadata, key)
}
