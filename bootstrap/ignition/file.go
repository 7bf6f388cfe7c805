// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"

	"drover.io/bootstrap/node"
)

// compressFrom is the size above which a file is compressed: below it base64 costs more than gzip saves.
const compressFrom = 1024

func file(f node.File) types.File {
	overwrite, mode := true, int(f.Mode.Perm()|f.Mode&0o7000)
	out := types.File{
		Node:          types.Node{Path: f.Path, Overwrite: &overwrite},
		FileEmbedded1: types.FileEmbedded1{Mode: &mode, Contents: contents(f.Content)},
	}
	if name, group, _ := strings.Cut(f.Owner, ":"); name != "" {
		out.User.Name = &name
		if group != "" {
			out.Group.Name = &group
		}
	}
	return out
}

// contents writes bytes as a data URL, in the shortest of three ways.
func contents(content []byte) types.Resource {
	if len(content) >= compressFrom {
		compression, source := "gzip", "data:;base64,"+base64.StdEncoding.EncodeToString(node.Compress(content))
		return types.Resource{Source: &source, Compression: &compression}
	}
	source := "data:," + url.PathEscape(string(content))
	if plain := "data:;base64," + base64.StdEncoding.EncodeToString(content); len(plain) < len(source) {
		source = plain
	}
	return types.Resource{Source: &source}
}
