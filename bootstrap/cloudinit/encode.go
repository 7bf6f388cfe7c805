// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"drover.io/bootstrap/node"
)

// compressFrom is the size above which a file is compressed: below it base64 costs more than gzip saves.
const compressFrom = 1024

// writeFile is one entry of the write_files module.
type writeFile struct {
	Path        string `yaml:"path"`
	Permissions string `yaml:"permissions"`
	Encoding    string `yaml:"encoding,omitempty"`
	Content     string `yaml:"content"`
}

func encode(f node.File) writeFile {
	w := writeFile{Path: f.Path, Permissions: fmt.Sprintf("%04o", f.Mode.Perm()|f.Mode&0o7000)}
	if staged := f.Staged(); staged != "" {
		w.Path, w.Permissions = staged, "0600"
	}
	switch {
	case f.Jinja:
		w.Content = string(f.Content)
	case len(f.Content) >= compressFrom:
		w.Encoding, w.Content = "gzip+base64", base64.StdEncoding.EncodeToString(node.Compress(f.Content))
	case isPlain(f.Content):
		w.Content = string(f.Content)
	default:
		w.Encoding, w.Content = "base64", base64.StdEncoding.EncodeToString(f.Content)
	}
	return w
}

// isPlain reports whether content is unchanged by both YAML and jinja: the whole document is a template as
// soon as one file is.
func isPlain(content []byte) bool {
	if !utf8.Valid(content) || !bytes.HasSuffix(content, []byte("\n")) {
		return false
	}
	s := string(content)
	for _, r := range s {
		if r != '\n' && (r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff) {
			return false
		}
	}
	return !strings.Contains(s, "{{") && !strings.Contains(s, "{%") && !strings.Contains(s, "{#")
}
