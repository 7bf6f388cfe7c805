// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/bootstrap/node"
)

func TestEncodeChoosesTheEncoding(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", compressFrom-1)
	for name, test := range map[string]struct {
		content  string
		jinja    bool
		encoding string
	}{
		"text is written as it is":                  {"a: b\n", false, ""},
		"text without a last line break in base64":  {"a: b", false, "base64"},
		"nothing in base64":                         {"", false, "base64"},
		"bytes in base64":                           {"\xff\xfe\n", false, "base64"},
		"a carriage return in base64":               {"a\r\n", false, "base64"},
		"a tab in base64":                           {"a\tb\n", false, "base64"},
		"a delete character in base64":              {"a\x7f\n", false, "base64"},
		"a next line character in base64":           {"a\u0085\n", false, "base64"},
		"a line separator in base64":                {"a\u2028\n", false, "base64"},
		"a paragraph separator in base64":           {"a\u2029\n", false, "base64"},
		"a byte order mark in base64":               {"a\ufeff\n", false, "base64"},
		"what jinja would evaluate in base64":       {"{{ a }}\n", false, "base64"},
		"a statement of jinja in base64":            {"{% a %}\n", false, "base64"},
		"a comment of jinja in base64":              {"{# a #}\n", false, "base64"},
		"a brace of its own is text":                {"{ a }\n", false, ""},
		"one byte below the limit is not worth it":  {line[1:] + "\n", false, ""},
		"a file of the limit is compressed":         {line + "\n", false, "gzip+base64"},
		"a template is never encoded":               {"{{ a }}", true, ""},
		"a long template is not either":             {line + "{{ a }}", true, ""},
		"other characters than ASCII are text, too": {"ä€😀\n", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := encode(node.File{Path: "/a", Mode: 0o644, Content: []byte(test.content), Jinja: test.jinja})
			if got.Encoding != test.encoding {
				t.Errorf("the encoding is %q, want %q", got.Encoding, test.encoding)
			}
			if back := decode(t, got); back != test.content {
				t.Errorf("it becomes %q", back)
			}
		})
	}
}

// decode returns what cloud-init writes.
func decode(t *testing.T, f writeFile) string {
	t.Helper()
	if f.Encoding == "" {
		return f.Content
	}
	content, err := base64.StdEncoding.DecodeString(f.Content)
	if err != nil {
		t.Fatal(err)
	}
	if f.Encoding == "base64" {
		return string(content)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	content, err = io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEncodeWritesModeAndOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode        fs.FileMode
		path, owner string
		want        writeFile
	}{
		"a mode has four digits":                 {0o44, "/a", "", writeFile{Path: "/a", Permissions: "0044"}},
		"an executable file":                     {0o755, "/a", "", writeFile{Path: "/a", Permissions: "0755"}},
		"the bits beside the permissions":        {0o6750, "/a", "", writeFile{Path: "/a", Permissions: "6750"}},
		"root exists from the start":             {0o644, "/a", "root", writeFile{Path: "/a", Permissions: "0644"}},
		"so does its group":                      {0o644, "/a", "root:root", writeFile{Path: "/a", Permissions: "0644"}},
		"a user may be created first":            {0o644, "/a", "app", writeFile{Path: "/opt/drover/files/a", Permissions: "0600"}},
		"and so may a group":                     {0o644, "/a", "root:app", writeFile{Path: "/opt/drover/files/a", Permissions: "0600"}},
		"a reboot may empty /tmp":                {0o644, "/tmp/a", "", writeFile{Path: "/opt/drover/files/tmp/a", Permissions: "0600"}},
		"it does not empty a folder like it":     {0o644, "/tmpfiles/a", "", writeFile{Path: "/tmpfiles/a", Permissions: "0644"}},
		"the type of a file is not a permission": {0o600 | fs.ModeDir, "/a", "", writeFile{Path: "/a", Permissions: "0600"}},
		"a file that only root may execute":      {0o700, "/a", "", writeFile{Path: "/a", Permissions: "0700"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.Content = "x\n"
			got := encode(node.File{Path: test.path, Mode: test.mode, Owner: test.owner, Content: []byte("x\n")})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCompressedDataIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("drover"), 1000)
	if !bytes.Equal(node.Compress(content), node.Compress(content)) || len(node.Compress(content)) > 100 {
		t.Errorf("%d bytes, or others each time", len(node.Compress(content)))
	}
}
